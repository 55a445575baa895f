"""Teaching to see: average precision, pixels beside scikit-learn, a video, and sorted streams beside trained heads."""

from __future__ import annotations

from typing import Any

from gyrfalcon import vision

from . import machine, report, vision_growth, vision_heads, vision_instances, vision_memory, vision_pixels, vision_video
from .vision_data import SIZE, Remembered, pedestrians, why_absent

PARTS = ("pixels", "instances", "folds", "serial", "growth", "video", "heads", "memory")


def run(quick: bool, part: str = "all") -> None:
    if why := why_absent():
        print(f"vision: left out, {why}")
        return
    machine.take_one_thread()
    described = machine.describe() | {"threads": 1}
    print(machine.headline(described))
    people, net = pedestrians(), Remembered(vision.extractor("tiny-vit", size=SIZE))
    found: dict[str, Any] = {"machine": described}
    for name in PARTS if part == "all" else (part,):
        match name:
            case "pixels":
                found |= vision_pixels.measure(quick, people, net)
            case "instances":
                found |= vision_instances.measure(quick, people, net)
            case "folds":
                found |= vision_instances.measure_folds(quick, people, net)
            case "serial":
                found |= vision_instances.measure_serial(quick, people, net)
            case "growth":
                found |= vision_growth.measure(quick, people, net)
            case "video":
                found |= vision_video.measure(quick, people)
            case "memory":
                found |= vision_memory.measure(quick)
            case "heads":
                found |= vision_heads.measure(quick, people, net)
        report.write_json(report.FOLDER / f"vision_{part}.json", found)
    print(f"\nWritten: {report.FOLDER / f'vision_{part}.json'}")
