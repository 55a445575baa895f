"""`gyrfalcon field`: a radiance field from a folder of pictures with cameras."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

import gyrfalcon as gf

from .options import MODEL_ENDINGS, Json, Seed
from .session import check_output, listing, tell

if TYPE_CHECKING:
    from gyrfalcon.fields import KPlanes, Rays

EXAMPLES = """
Examples:

gyrfalcon field lego/ --minutes 5 --out lego.safetensors --video turn.mp4

gyrfalcon field garden/ --size 400 --sampler proposal --out garden.safetensors
"""

DEFAULT_MINUTES = 5.0
TIME_NODES, TIME_SMOOTHNESS, TRANSIENTS = 50, 1e-2, 1e-7  # of scenes that move
TEST_VIEWS = 8  # every eighth picture is set aside


class Decoder(StrEnum):
    """How features become density and color."""

    explicit = "explicit"
    hybrid = "hybrid"


class Sampler(StrEnum):
    """Where along rays to look."""

    occupancy = "occupancy"
    proposal = "proposal"


def command(
    folder: Annotated[Path, typer.Argument(help="With transforms_train.json, a COLMAP model or poses_bounds.npy.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The model file to write (.safetensors).", show_default=False)
    ],
    minutes: Annotated[float | None, typer.Option("--minutes", help="How long to train; 5 if not given.")] = None,
    steps: Annotated[int | None, typer.Option("--steps", min=1, help="How long to train, in steps.")] = None,
    video: Annotated[Path | None, typer.Option("--video", help="Write a film around the scene here (.mp4).")] = None,
    size: Annotated[int | None, typer.Option("--size", min=8, help="Reduce pictures to this longest side.")] = None,
    decoder: Annotated[Decoder, typer.Option("--decoder")] = Decoder.explicit,
    sampler: Annotated[Sampler, typer.Option("--sampler")] = Sampler.occupancy,
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", help="A folder: a fit that was cut short there goes on.")
    ] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Train a radiance field (K-planes) on pictures with known cameras.

    Every eighth picture is set aside to measure the quality. Pictures with times give a field that moves.
    """
    import numpy as np

    check_output(out, MODEL_ENDINGS)
    check_output(video, (".mp4",))
    began = time.perf_counter()
    rays = gf.fields.read_scene(folder, size=size)
    held = np.arange(len(rays)) % TEST_VIEWS == TEST_VIEWS - 1
    moves: dict[str, Any] = {"times": TIME_NODES, "time_smoothness": TIME_SMOOTHNESS, "transients": TRANSIENTS}
    model = gf.fields.KPlanes(
        decoder=str(decoder),
        sampler=str(sampler),
        verbose=not json,
        random_state=seed,
        **{} if rays.times is None else moves,
    )
    if minutes is None and steps is None:
        minutes = DEFAULT_MINUTES
    model.fit(rays.subset(~held), minutes=minutes, steps=steps, checkpoint=checkpoint)
    model.save(out)
    facts: dict[str, Any] = {"command": "field", "folder": folder, "out": out, "views": len(rays), "shape": rays.shape}
    facts |= {"parameters": model.n_parameters_, "steps": model.record_.steps[-1]}
    facts |= {"psnr": model.record_.psnr[-1], "test_psnr": _quality(model, rays, held), "video": video}
    if video is not None:
        model.video(video)
    facts["seconds"] = time.perf_counter() - began
    tell(facts, json, lambda console: _show(console, facts))


def _quality(model: KPlanes, rays: Rays, held: Any) -> float | None:
    """Mean PSNR of the pictures that were set aside."""
    import numpy as np

    found = []
    low, high = rays.time_range
    for index in np.flatnonzero(held):
        when = None if rays.times is None else low + (high - low) * float(rays.times[index])
        bundle = rays.subset([int(index)])
        rgb = model.render(rays.poses[index].numpy(), rays.shape, time=when)[0]
        image = bundle.images[0].numpy()
        errors = rgb - (image / 255 if image.dtype == np.uint8 else image)
        found.append(-10 * np.log10(max(float(np.mean(errors**2)), 1e-12)))
    return float(np.mean(found)) if found else None


def _show(console: Console, facts: dict[str, Any]) -> None:
    rows = {
        "views": f"{facts['views']} of {facts['shape'][0]} × {facts['shape'][1]} pixels",
        "parameters": facts["parameters"],
        "steps": facts["steps"],
        "PSNR, training rays": f"{facts['psnr']:.2f} dB",
        "PSNR, pictures set aside": "–" if facts["test_psnr"] is None else f"{facts['test_psnr']:.2f} dB",
        "seconds": facts["seconds"],
        "model": facts["out"],
    }
    console.print(listing(f"field of {facts['folder']}", rows | ({"film": facts["video"]} if facts["video"] else {})))
