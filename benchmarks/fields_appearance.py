"""Pictures of `lego` under different light: a field with appearance vectors beside one without.

The colors of each picture are multiplied by a tint of its own, and its background stays white. Vectors of test pictures
are found from their left halves, and right halves are compared.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from gyrfalcon.fields import KPlanes, Rays

Array = np.ndarray[Any, Any]
STEPS, ADAPTATION = 600, 100
VIEWS = 5  # of the test pictures
LEAST_TINT = 0.3
GOAL = 3.0  # dB


def run(quick: bool) -> None:
    path = Path(os.environ.get("GYRFALCON_DATA", "."), "lego", "data.npz")
    if not path.is_file():
        print("lego is not there: put lego/data.npz in the folder that GYRFALCON_DATA names")
        return
    data = np.load(path)
    random = np.random.default_rng(0)
    images, tests = (_tinted(data[f"{name}_rgba"], random) for name in ("train", "test"))
    chosen = slice(0, None, len(tests) // (2 if quick else VIEWS))
    tests, poses = tests[chosen], data["test_pose"][chosen]
    focal = 0.5 * images.shape[2] / np.tan(0.5 * float(data["camera_angle_x"]))
    steps = 20 if quick else STEPS
    plain = KPlanes(random_state=0).fit(Rays.from_poses(images, data["train_pose"], focal), steps=steps)
    numbered = Rays.from_poses(images, data["train_pose"], focal, image_ids=np.arange(len(images)))
    coded = KPlanes(appearance=32, random_state=0).fit(numbered, steps=steps)
    height, width = images.shape[1:3]
    found = []
    for image, pose in zip(tests, poses, strict=True):
        half = Rays.from_poses(
            image[None, :, : width // 2], pose[None], focal, center=(width / 2, height / 2), near=2, far=6
        )
        models = plain, coded.adapt(half, steps=ADAPTATION)
        found.append([_psnr(model.render(pose, (height, width))[0], image) for model in models])
    without, adapted = np.mean(found, 0)
    print(
        f"tinted lego, {steps} steps, {len(tests)} test views: {without:.2f} dB without appearance, {adapted:.2f} dB "
        f"after adaptation on left halves, {adapted - without:+.2f} dB (goal {GOAL:g}: "
        f"{'met' if adapted - without >= GOAL else 'MISSED'})"
    )


def _tinted(rgba: Array, random: np.random.Generator) -> Array:
    """Colors, composited on white, times a tint of each picture."""
    colors, opacity = rgba[..., :3] / 255, rgba[..., 3:] / 255
    tints = random.uniform(LEAST_TINT, 1, size=(len(rgba), 1, 1, 3))
    white = 1 - opacity
    return np.asarray(np.clip(255 * ((colors - white) * tints + white) + 0.5, 0, 255), dtype=np.uint8)


def _psnr(picture: Array, image: Array) -> float:
    right = slice(image.shape[1] // 2, None)
    return float(-10 * np.log10(np.mean(np.square(picture[:, right] - image[:, right] / 255))))
