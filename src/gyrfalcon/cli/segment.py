"""`gyrfalcon segment`: find what a model was taught in a video, a picture or a folder of pictures."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import gyrfalcon as gf

from .options import Json
from .session import listing, tell

EXAMPLES = """
Examples:

gyrfalcon segment mug.safetensors clip.mp4 --out masks/

gyrfalcon segment mug.safetensors pictures/ --out masks/ --min-score 0.7 --video masks.mp4
"""


def command(
    model: Annotated[Path, typer.Argument(help="A model that was taught, a .safetensors file.", show_default=False)],
    source: Annotated[Path, typer.Argument(help="A video, a picture or a folder of pictures.", show_default=False)],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The folder for PNG masks and found.json.", show_default=False)
    ],
    min_score: Annotated[
        float, typer.Option("--min-score", min=0.0, max=1.0, help="Leave out what scores lower.")
    ] = 0.5,
    video: Annotated[
        Path | None, typer.Option("--video", help="Also write the frames with masks as a video (.mp4).")
    ] = None,
    rate: Annotated[float, typer.Option("--rate", help="Frames a second of --video.")] = 25.0,
    every: Annotated[int, typer.Option("--every", min=1, help="Take one of so many frames.")] = 1,
    json: Json = False,
) -> None:
    """Find instances in every frame: PNG files of instance numbers, and COCO's JSON of boxes, masks and scores.

    The number of an instance in a PNG file is its place among those of the frame in found.json; 0 is background.
    """
    from PIL import Image

    vision = gf.vision

    loaded = gf.load(model)
    if not isinstance(loaded, vision.InstanceSegmenter):
        raise ValueError(f"{model} holds a {type(loaded).__name__}, not an InstanceSegmenter")
    if video is not None and video.suffix.lower() != ".mp4":
        raise ValueError(f"--video must end in .mp4, got {video}")
    out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    writer = None if video is None else vision.VideoWriter(video, rate)
    frames, counts = [], dict.fromkeys(loaded.classes_, 0)
    try:
        for number, (name, frame) in enumerate(vision.read_frames(source)):
            if number % every:
                continue
            found = loaded.predict(frame, min_score=min_score)
            shape = (frame.shape[0], frame.shape[1])
            Image.fromarray(vision.number_masks(found, shape)).save(out / f"{Path(name).stem}.png")
            frames.append((name, shape, found))
            for one in found:
                counts[one.label] += 1
            if writer is not None:
                writer.write(vision.draw(frame, found, loaded.classes_))
    finally:
        if writer is not None:
            writer.close()
    vision.write_coco(out / "found.json", frames)
    seconds = time.perf_counter() - began
    facts: dict[str, Any] = {"command": "segment", "model": model, "source": source, "out": out, "video": video}
    facts |= {"frames": len(frames), "found": counts, "seconds": seconds}
    tell(facts, json, lambda console: _show(console, facts))


def _show(console: Console, facts: dict[str, Any]) -> None:
    head = {"frames": facts["frames"], "seconds": round(facts["seconds"], 1)}
    console.print(listing("segmented", head | {f"found {label}": count for label, count in facts["found"].items()}))
    console.print(f"written: {facts['out']}")
