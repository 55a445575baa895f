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
FEW_RAYS = 256  # of a step of hybrid fields and of moving spheres, which would take long with up to 4,096
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
            continue
        case = Case(part, key, **report.kept(path, fit))
        print(f"  {part} {key}: {case.psnr:.2f} dB, {case.steps} steps, {case.seconds:.0f} CPU-s", flush=True)
        yield case


def values(found: list[Case]) -> list[tuple[str, Case, float]]:
    """In words, the case, and the published PSNR, for the cases that are there."""
    known = {(case.part, case.key): case for case in found}
    if ("combination", "explicit-product") in known:
        known["features", str(max(FEATURES))] = known["combination", "explicit-product"]
    wanted = [
        (f"{decoder}, {combine}", ("combination", f"{decoder}-{combine}"), published)
        for (decoder, combine), published in PUBLISHED.items()
    ]
    wanted += [(f"{count} features", ("features", str(count)), published) for count, published in FEATURES.items()]
    wanted += [
        (f"smoothness in time {weight:g}", ("smoothness", f"{weight:g}"), published)
        for weight, published in PUBLISHED_SMOOTHNESS.items()
    ]
    return [(what, known[key], published) for what, key, published in wanted if key in known]


def differences(found: list[Case]) -> list[tuple[str, float, float]]:
    """What product, features and smoothness give in dB: in words, ours and published."""
    known = {what: (case.psnr, published) for what, case, published in values(found)}
    pairs = [(f"{decoder}, product", f"{decoder}, sum") for decoder in ("explicit", "hybrid")]
    pairs += [(f"{many} features", f"{few} features") for few, many in pairwise(FEATURES)]
    top = f"smoothness in time {TOP:g}"
    pairs += [(top, f"smoothness in time {weight:g}") for weight in PUBLISHED_SMOOTHNESS if weight != TOP]
    return [
        (
            f"{one} less {other.split(', ')[-1].removeprefix('smoothness in time ')}",
            *np.subtract(known[one], known[other]).tolist(),
        )
        for one, other in pairs
        if one in known and other in known
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
    model = KPlanes(RESOLUTIONS, random_state=0, **options)
    run = ProcessorTime(model, rays, None, steps, most_rays=FEW_RAYS if model.decoder == "hybrid" else None)
    run.train()
    return _facts(run, run.quality(rays, images[views], poses[views]))


def _spheres(weight: float, steps: int, quick: bool) -> dict[str, Any]:
    """Few views of many times, so that what is between them has to be guessed."""
    size = 32 if quick else 64
    scene, held = (moving_spheres(views=views, size=size, seed=seed) for views, seed in SPHERES)
    rays = Rays.from_poses(scene.images, scene.poses, scene.focal, times=scene.times)
    model = KPlanes((32, 64), times=50, time_smoothness=weight, transients=TRANSIENTS, random_state=0)
    run = ProcessorTime(model, rays, None, steps, most_rays=FEW_RAYS)
    run.train()
    return _facts(run, run.quality(rays, held.images, held.poses, held.times))


def _facts(run: ProcessorTime, psnr: float) -> dict[str, Any]:
    return {"psnr": psnr, "steps": run.trainer.count, "seconds": run.seconds}
