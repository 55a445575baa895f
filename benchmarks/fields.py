"""Radiance fields: quality for processor time, rays a second beside `grid_sample`, and the shapes of the ablations."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gyrfalcon.fields import KPlanes, Rays, moving_spheres
from gyrfalcon.fields.building import new_field
from gyrfalcon.fields.draws import Draws
from gyrfalcon.fields.field import Field
from gyrfalcon.fields.layout import PenaltyWeights
from gyrfalcon.fields.training import Goals, Trainer
from gyrfalcon.fields.views import picture
from gyrfalcon.threads import one_thread_each

from .plain_planes import PlainEngine

Array = np.ndarray[Any, Any]
CORES = 2  # minutes are those of two cores, and are counted as processor time
MINUTES = ((1, 28.0), (5, 31.0), (10, 32.5))
EQUAL_SECONDS = 100.0  # of processor time, for both engines
PUBLISHED = {"product": (36.36, 36.97), "sum": (30.59, 36.73)}
PUBLISHED_FEATURES = "30.66 to 35.45 dB for 2 to 128"
PUBLISHED_SMOOTHNESS = {0.0: 29.69, 1e-3: 30.78, 1e-2: 31.17, 1e-1: 31.10, 1.0: 30.67, 10.0: 29.72}


class ProcessorTime:
    """Trains for processor time, all threads together, so that other work on the machine changes nothing."""

    def __init__(self, model: KPlanes, rays: Rays, seconds: float | None, steps: int | None, engine: Any = None):
        generator = torch.Generator().manual_seed(0)
        self.field: Field = new_field(model, rays, generator)
        if engine is not None:
            self.field.engine = engine
        weights = PenaltyWeights(model.variation, model.time_smoothness, model.transients)
        goals = Goals(steps, seconds, weights, model.distortion)
        self.trainer = Trainer(self.field, Draws.of(rays, model.importance), goals, generator)
        self.rays = 0
        self.seconds = 0.0

    @one_thread_each
    def train(self) -> None:
        while self.trainer.progress < 1:
            count, began = self.trainer.rays_per_step, time.process_time()
            self.trainer.step()
            self.seconds += time.process_time() - began
            self.trainer.seconds = self.seconds
            self.rays += count
        self.trainer.finish()

    @one_thread_each
    def quality(self, rays: Rays, images: Array, poses: Array, times: Array | None = None) -> float:
        """Mean PSNR."""
        found = []
        for index, (image, pose) in enumerate(zip(images, poses, strict=True)):
            when = None if times is None else float(times[index])
            matrix = torch.from_numpy(np.asarray(pose, dtype=np.float64))
            rgb = picture(self.field, matrix, rays.intrinsics.values[0], image.shape[:2], when, None)[0]
            found.append(-10 * np.log10(np.mean((rgb - image / 255) ** 2)))
        return float(np.mean(found))


def run(quick: bool) -> None:
    lego = _lego(quick)
    if lego is None:
        print("lego is not there: put lego/data.npz in the folder that GYRFALCON_DATA names")
    else:
        _quality(*lego, quick)
        _speed(*lego, quick)
        _combination(*lego, quick)
        _features(*lego, quick)
    _smoothness(quick)


def _lego(quick: bool) -> tuple[Rays, Array, Array] | None:
    path = Path(os.environ.get("GYRFALCON_DATA", "."), "lego", "data.npz")
    if not path.is_file():
        return None
    data = np.load(path)
    images = data["train_rgba"][..., :3]
    focal = 0.5 * images.shape[2] / np.tan(0.5 * float(data["camera_angle_x"]))
    rays = Rays.from_poses(images, data["train_pose"], focal)
    every = 50 if quick else 1
    return rays, data["test_rgba"][::every, ..., :3], data["test_pose"][::every]


def _quality(rays: Rays, images: Array, poses: Array, quick: bool) -> None:
    print(f"lego at 200 × 200, {len(images)} test views; minutes of {CORES} cores as processor time")
    for minutes, goal in MINUTES:
        run = ProcessorTime(KPlanes(random_state=0), rays, (1 if quick else 60) * CORES * minutes, None)
        run.train()
        began = time.process_time()
        found = run.quality(rays, images, poses)
        view = (time.process_time() - began) / len(images)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"  {minutes:2} min: {found:.2f} dB (goal {goal}: {_met(found >= goal)}), {run.trainer.count} steps, "
            f"{run.rays / run.seconds:,.0f} rays/s of a core, a view {view:.3f} processor s, peak {memory:.2f} GB",
            flush=True,
        )


def _speed(rays: Rays, images: Array, poses: Array, quick: bool) -> None:
    views = slice(0, None, max(1, len(images) // 10))
    steps = 20 if quick else 300
    print(f"beside plain grid_sample, {steps} equal steps, then {EQUAL_SECONDS:.0f} equal processor seconds")
    for length, seconds in ((steps, None), (None, 4.0 if quick else EQUAL_SECONDS)):
        rates, found = [], []
        for engine in (None, PlainEngine()):
            run = ProcessorTime(KPlanes(random_state=0), rays, seconds, length, engine)
            run.train()
            rates.append(run.rays / run.seconds)
            found.append(run.quality(rays, images[views], poses[views]))
        ratio, ahead = rates[0] / rates[1], found[0] - found[1]
        goal = f"ratio 5: {_met(ratio >= 5)}" if seconds is None else f"3 dB ahead: {_met(ahead >= 3)}"
        print(
            f"  native {rates[0]:,.0f} rays/s {found[0]:.2f} dB, plain {rates[1]:,.0f} rays/s {found[1]:.2f} dB, "
            f"ratio {ratio:.1f}, ahead {ahead:+.2f} dB ({goal})",
            flush=True,
        )


def _ablate(rays: Rays, images: Array, poses: Array, steps: int, **options: Any) -> float:
    run = ProcessorTime(KPlanes(random_state=0, **options), rays, None, steps)
    run.train()
    views = slice(0, None, max(1, len(images) // 10))
    return run.quality(rays, images[views], poses[views])


def _combination(rays: Rays, images: Array, poses: Array, quick: bool) -> None:
    steps = 20 if quick else 3000
    print(f"product and sum after {steps} steps, scales 32, 64, 128; published beside")
    for decoder, place in (("explicit", 0), ("hybrid", 1)):
        found = {
            combine: _ablate(rays, images, poses, steps, resolutions=(32, 64, 128), decoder=decoder, combine=combine)
            for combine in ("product", "sum")
        }
        known = PUBLISHED["product"][place] - PUBLISHED["sum"][place]
        print(
            f"  {decoder}: product {found['product']:.2f}, sum {found['sum']:.2f}, difference "
            f"{found['product'] - found['sum']:+.2f} dB (published {known:+.2f})",
            flush=True,
        )


def _features(rays: Rays, images: Array, poses: Array, quick: bool) -> None:
    steps = 20 if quick else 3000
    found = [_ablate(rays, images, poses, steps, resolutions=(32, 64, 128), features=count) for count in (2, 4, 8, 16)]
    shown = ", ".join(f"{value:.2f}" for value in found)
    print(
        f"features 2, 4, 8, 16: {shown} dB, monotone: {_met(found == sorted(found))} (published {PUBLISHED_FEATURES})"
    )


def _smoothness(quick: bool) -> None:
    """Few views of many times, so that what is between them has to be guessed."""
    scene = moving_spheres(views=30 if quick else 60, size=32 if quick else 64)
    held = moving_spheres(views=6, size=32 if quick else 64, seed=7)
    rays = Rays.from_poses(scene.images, scene.poses, scene.focal, times=scene.times)
    steps = 20 if quick else 3000
    print(f"time smoothness on moving spheres, {steps} steps; published (Jumping Jacks) beside")
    for weight, known in PUBLISHED_SMOOTHNESS.items():
        model = KPlanes((32, 64), times=50, time_smoothness=weight, transients=1e-3, random_state=0)
        run = ProcessorTime(model, rays, None, steps)
        run.train()
        found = run.quality(rays, held.images, held.poses, held.times)
        print(f"  {weight:g}: {found:.2f} dB (published {known:.2f})", flush=True)


def _met(condition: bool) -> str:
    return "met" if condition else "MISSED"
