"""Pictures for the benchmarks of vision: Penn-Fudan, and a video of Lego views in front of it, from $GYRFALCON_DATA."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gyrfalcon import vision
from gyrfalcon.vision.extractors import EncodedMaps

Array = np.ndarray[Any, Any]
SIZE = 512


@dataclass(frozen=True)
class Pictures:
    images: list[Array]
    masks: list[dict[str, list[Array]]]


def why_absent() -> str:
    """Why the benchmark cannot run, in words; empty if it can."""
    folder = Path(os.environ.get("GYRFALCON_DATA", ""))
    missing = [name for name in ("pennfudan", "lego") if not (folder / name / "data.npz").is_file()]
    if not os.environ.get("GYRFALCON_DATA") or missing:
        return f"{missing or ['pennfudan', 'lego']} are not in $GYRFALCON_DATA"
    return "" if vision.available("tiny-vit") else "call gyrfalcon.vision.extractor('tiny-vit') once, with a network"


def pedestrians() -> Pictures:
    """170 pictures with the masks of the people in them."""
    with np.load(Path(os.environ["GYRFALCON_DATA"], "pennfudan", "data.npz")) as data:
        images = [np.array(image.convert("RGB")) for image in _decoded(data["img_buf"], data["img_off"])]
        numbered = [np.array(image) for image in _decoded(data["msk_buf"], data["msk_off"])]
    masks = [{"person": [mask == number for number in np.unique(mask) if number]} for mask in numbered]
    return Pictures(images, masks)


def _decoded(buffer: Array, offsets: Array) -> list[Image.Image]:
    content = buffer.tobytes()
    return [Image.open(io.BytesIO(content[start:stop])) for start, stop in pairwise(offsets)]


def video(
    backgrounds: list[Array], labels: dict[str, tuple[int, int, int]], frames: int, seed: int, part: str
) -> Pictures:
    """Frames with one Lego view of each kind, of which channels are permuted, in front of pictures."""
    random = np.random.default_rng(seed)
    with np.load(Path(os.environ["GYRFALCON_DATA"], "lego", "data.npz")) as data:
        views = data[f"{part}_rgba"]
    images, masks = [], []
    for number in range(frames):
        image = backgrounds[number % len(backgrounds)].copy()
        shown: dict[str, list[Array]] = {}
        places = random.permutation(len(labels))
        for place, (label, channels) in zip(places, labels.items(), strict=True):
            view = views[(7 * number + 31 * place) % len(views)]
            side = int(random.uniform(0.35, 0.55) * min(image.shape[:2]))
            small = np.array(Image.fromarray(view).resize((side, side), Image.Resampling.LANCZOS))
            room = image.shape[1] // len(labels)
            left = int(place * room + random.uniform(0, max(1, room - side)))
            left = min(left, image.shape[1] - side)
            top = int(random.uniform(0, image.shape[0] - side))
            alpha = small[:, :, 3:] / 255
            window = (slice(top, top + side), slice(left, left + side))
            image[window] = (alpha * small[:, :, list(channels)] + (1 - alpha) * image[window]).astype(np.uint8)
            mask = np.zeros(image.shape[:2], dtype=bool)
            mask[window] = alpha[:, :, 0] > 0.5
            for others in shown.values():
                others[0] &= ~mask
            shown[label] = [mask]
        images.append(image)
        masks.append(shown)
    return Pictures(images, masks)


class Remembered:
    """An extractor that keeps what it made, in half precision, so that trials do not wait for it."""

    def __init__(self, net: Callable[[Array], Any]):
        self.net, self.name = net, "remembered"
        self.kept: dict[bytes, EncodedMaps] = {}

    def __call__(self, image: Array) -> EncodedMaps:
        key = image.tobytes()
        if key not in self.kept:
            made = self.net(image)
            self.kept[key] = EncodedMaps({stride: maps.half() for stride, maps in made.items()}, made.embedding.half())
        kept = self.kept[key]
        return EncodedMaps({stride: maps.float() for stride, maps in kept.items()}, kept.embedding.float())
