"""Radiance fields: quality for processor time, rays a second beside `grid_sample`, and the shapes of the ablations."""

from __future__ import annotations

import resource
import time
from functools import partial
from typing import Any

import numpy as np

from gyrfalcon.fields import KPlanes, Rays

from . import fields_ablations, fields_appearance, machine, report
from .fields_training import ProcessorTime, lego
from .plain_planes import PlainEngine

Array = np.ndarray[Any, Any]
CORES = 2  # minutes are those of two cores, and are counted as processor time
MINUTES = ((1, 28.0), (5, 31.0), (10, 32.5))
EQUAL_SECONDS = 100.0  # of processor time, for both engines
PARTS = ("quality", "speed", "appearance", *fields_ablations.PARTS)


def run(quick: bool, part: str = "all", seconds: float | None = None) -> None:
    """Parts that are not kept in `report/fields/` yet; nothing is begun after `seconds` of processor time."""
    scene = lego(quick)
    parts = PARTS if part == "all" else (part,)
    if scene is None:
        print("lego is not there: put lego/data.npz in the folder that GYRFALCON_DATA names")
    if scene is not None and "quality" in parts:
        _quality(*scene, quick, seconds)
    if scene is not None and "speed" in parts:
        _speed(*scene, quick)
    if "appearance" in parts:
        fields_appearance.run(quick)
    if ablations := tuple(name for name in fields_ablations.PARTS if name in parts):
        fields_ablations.run(quick, ablations, seconds)


def _quality(rays: Rays, images: Array, poses: Array, quick: bool, seconds: float | None) -> None:
    print(f"lego at 200 × 200, {len(images)} test views; minutes of {CORES} cores as processor time")
    began = time.process_time()
    for minutes, goal in MINUTES:
        path = fields_ablations.folder(quick) / f"quality-{minutes}.json"
        if not path.exists() and seconds is not None and time.process_time() - began > seconds:
            return
        budget = (1 if quick else 60) * CORES * minutes
        row = report.kept(path, partial(_fit_for, budget, rays, images, poses))
        print(
            f"  {minutes:2} min: {row['psnr']:.2f} dB (goal {goal}: {_met(row['psnr'] >= goal)}), "
            f"{row['steps']} steps, {row['rays_per_second']:,.0f} rays/s of a core, "
            f"a view {row['view_seconds']:.3f} processor s, peak {row['peak_bytes'] / 1e9:.2f} GB",
            flush=True,
        )


def _fit_for(seconds: float, rays: Rays, images: Array, poses: Array) -> dict[str, Any]:
    run = ProcessorTime(KPlanes(random_state=0), rays, seconds, None)
    run.train()
    began = time.process_time()
    psnr = run.quality(rays, images, poses)
    return {
        "psnr": psnr,
        "views": len(images),
        "steps": run.trainer.count,
        "seconds": run.seconds,
        "rays_per_second": run.rays / run.seconds,
        "view_seconds": (time.process_time() - began) / len(images),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "machine": machine.describe(),
    }


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


def _met(condition: bool) -> str:
    return "met" if condition else "MISSED"
