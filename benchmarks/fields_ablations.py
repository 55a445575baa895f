"""Ablations of radiance fields after equal steps: product and sum, features, and smoothness in time.

The published differences appear late (after 600 steps of `lego` a sum of planes is still ahead of a product), so each
case takes 3,000 steps. A case that has ended is kept in `report/fields/` and is not run again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from gyrfalcon.fields import KPlanes, Rays, moving_spheres

from . import report
from .fields_training import ProcessorTime, lego

Array = np.ndarray[Any, Any]
FOLDER = report.FOLDER / "fields"
STEPS = 3000
RESOLUTIONS = (32, 64, 128)
VIEWS = 10  # of lego's 200 test views, evenly spread
PUBLISHED = {
    ("explicit", "product"): 36.36,
    ("explicit", "sum"): 30.59,
    ("hybrid", "product"): 36.97,
    ("hybrid", "sum"): 36.73,
}
FEATURES = {2: 30.66, 4: 32.27, 8: 33.80, 16: 34.80}  # the last is the explicit product above
PUBLISHED_SMOOTHNESS = {0.0: 29.69, 1e-3: 30.78, 1e-2: 31.17, 1e-1: 31.10, 1.0: 30.67, 10.0: 29.72}
TOP = 1e-2  # where the published hill has its top
SPHERES = ((60, 0), (12, 7))  # views and seeds of the pictures to learn from, and of those to judge by
TRANSIENTS = 3e-8
Fit = Callable[[], dict[str, Any]]
PARTS = ("combination", "features", "smoothness")


@dataclass(frozen=True)
class Case:
    """One fit; `key` names what varies."""

    part: str
    key: str
    psnr: float
    steps: int
    seconds: float  # of processor time


def folder(quick: bool) -> Path:
    return FOLDER / "quick" if quick else FOLDER


def cases(quick: bool, parts: tuple[str, ...] = PARTS, seconds: float | None = None) -> Iterator[Case]:
    """Cases that are kept, or else run, in turn; none is begun once all have taken `seconds` of processor time."""
    began = time.process_time()
    for part, key, fit in _plan(quick, parts):
        path = folder(quick) / f"{part}-{key}.json"
        if not path.exists() and seconds is not None and time.process_time() - began > seconds:
            return
        case = Case(part, key, **report.kept(path, fit))
        print(f"  {part} {key}: {case.psnr:.2f} dB, {case.steps} steps, {case.seconds:.0f} CPU-s", flush=True)
        yield case


def differences(found: list[Case]) -> list[tuple[str, float, float]]:
    """What, ours and published, in dB, for the cases that are there: what product, features and smoothness give."""
    known = {(case.part, case.key): case.psnr for case in found}
    if ("combination", "explicit-product") in known:
        known["features", str(max(FEATURES))] = known["combination", "explicit-product"]
    wanted: list[tuple[str, tuple[str, str], tuple[str, str], float]] = []
    for decoder in ("explicit", "hybrid"):
        keys = [("combination", f"{decoder}-{combine}") for combine in ("product", "sum")]
        gain = PUBLISHED[decoder, "product"] - PUBLISHED[decoder, "sum"]
        wanted.append((f"{decoder}: product less sum", keys[0], keys[1], gain))
    for few, many in pairwise(FEATURES):
        keys = [("features", str(count)) for count in (many, few)]
        wanted.append((f"{many} features less {few}", keys[0], keys[1], FEATURES[many] - FEATURES[few]))
    for weight, published in PUBLISHED_SMOOTHNESS.items():
        if weight != TOP:
            keys = [("smoothness", f"{value:g}") for value in (TOP, weight)]
            words = f"smoothness in time {TOP:g} less {weight:g}"
            wanted.append((words, keys[0], keys[1], PUBLISHED_SMOOTHNESS[TOP] - published))
    return [
        (what, known[one] - known[other], gain) for what, one, other, gain in wanted if one in known and other in known
    ]


def run(quick: bool, parts: tuple[str, ...] = PARTS, seconds: float | None = None) -> list[Case]:
    print(f"ablations after {20 if quick else STEPS} steps; scales {RESOLUTIONS} of lego")
    found = list(cases(quick, parts, seconds))
    for what, ours, published in differences(found):
        print(f"  {what:<36} {ours:+6.2f} dB, published {published:+.2f} dB")
    return found


def _plan(quick: bool, parts: tuple[str, ...]) -> Iterator[tuple[str, str, Fit]]:
    steps = 20 if quick else STEPS
    if "smoothness" in parts:
        for weight in sorted(PUBLISHED_SMOOTHNESS, key=lambda weight: weight not in (TOP, 0.0, 10.0)):  # the hill first
            yield "smoothness", f"{weight:g}", partial(_spheres, weight, steps, quick)
    scene = lego(quick)
    if scene is None:
        print("  lego is not there: put lego/data.npz in the folder that GYRFALCON_DATA names")
        return
    if "combination" in parts:
        for decoder, combine in PUBLISHED:
            yield "combination", f"{decoder}-{combine}", partial(_lego, scene, steps, decoder=decoder, combine=combine)
    if "features" in parts:
        for count in list(FEATURES)[:-1]:
            yield "features", str(count), partial(_lego, scene, steps, features=count)


def _lego(scene: tuple[Rays, Array, Array], steps: int, **options: Any) -> dict[str, Any]:
    rays, images, poses = scene
    views = slice(0, None, max(1, len(images) // VIEWS))
    run = ProcessorTime(KPlanes(RESOLUTIONS, random_state=0, **options), rays, None, steps)
    run.train()
    return _facts(run, run.quality(rays, images[views], poses[views]))


def _spheres(weight: float, steps: int, quick: bool) -> dict[str, Any]:
    """Few views of many times, so that what is between them has to be guessed."""
    size = 32 if quick else 64
    scene, held = (moving_spheres(views=views, size=size, seed=seed) for views, seed in SPHERES)
    rays = Rays.from_poses(scene.images, scene.poses, scene.focal, times=scene.times)
    model = KPlanes((32, 64), times=50, time_smoothness=weight, transients=TRANSIENTS, random_state=0)
    run = ProcessorTime(model, rays, None, steps)
    run.train()
    return _facts(run, run.quality(rays, held.images, held.poses, held.times))


def _facts(run: ProcessorTime, psnr: float) -> dict[str, Any]:
    return {"psnr": psnr, "steps": run.trainer.count, "seconds": run.seconds}
