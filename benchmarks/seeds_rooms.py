"""Published numbers of what is built on kernel machines: wind, on-line segmentation and radiance fields."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from gyrfalcon import vision
from gyrfalcon.forecasting import KernelForecaster

from . import fields_ablations, forecasting, vision_data, vision_heads, vision_instances
from .seeds_core import THESIS, found_in
from .seeds_row import Row

STATIC = {
    "online": 0.38,
    "incremental": 0.38,
    "online-90D": 0.40,
}  # at station A1, where a static model has 0.39 ± 0.05
MARGIN = 0.05 / 0.39
PICTURES, SEEDS = 20, 2
# AP50 of boxes after one epoch of gradients in the output layers: frames in their order, and shuffled.
ONE_EPOCH = {"YCB-Video": (69.63, 82.78), "HO-3D": (19.28, 86.77)}
SMALLER = (
    "radiance fields: 200 × 200 pixels, scales of 32, 64 and 128, 16 features and 3,000 steps; the thesis has "
    "800 × 800, 64 to 512, 32 and 30,000 on a GPU; the directions are compared; "
    "hybrid fields and moving spheres take 256 rays a step at most"
)
# AP50 of masks, AP70 of boxes and minutes, of: ours, with proposals that are not adapted, serial, fine-tuned layers.
SEGMENTATION = {
    "YCB-Video": ((83.06, 72.97, 14), (74.44, 68.06, 11), (83.00, 75.06, 25), (81.70, 75.81, 177)),
    "HO-3D": ((84.50, 63.33, 17), (77.42, 57.89, 14), (87.87, 71.65, 37), (86.11, 74.75, 111)),
}


def wind(quick: bool) -> Iterator[Row]:
    forecasting.run(quick, ("errors", "retraining"))
    found = found_in("forecasting.json")
    if not found["errors"]:
        note = "wind: its file is not in $GYRFALCON_DATA"
        for mode, published in STATIC.items():
            what = f"three hours ahead, {mode}: NRMSE over that of a static model"
            yield Row(THESIS + ", figure 7.9", what, "", published / 0.39, None, MARGIN, False, "", note)
        return
    note = "wind: another station, so ratios to its static model are compared, within the deviation of months"
    retraining = found["retraining"]
    for mode, published in STATIC.items():
        ours = retraining[mode]["nrmse"] / retraining["static"]["nrmse"]
        what = f"three hours ahead, {mode}: NRMSE over that of a static model"
        numbers = published / 0.39, ours, MARGIN, False, "wind_era5"
        yield Row(THESIS + ", figure 7.9", what, "", *numbers, note=note, seconds=retraining[mode]["cpu"])
    gain = 100 * (1 - min(found["errors"]["gamma"]))
    note = "persistence: 20 % at the thesis's station A1, 4 % at L1"
    seconds = found["errors"]["kernel s+zm→s"]["cpu"]
    what = "largest gain over persistence"
    yield Row(THESIS + ", figure 7.4", what, "%", 20.0, gain, 0, True, "wind_era5", note, False, seconds=seconds)
    yield from _memories(quick)


def _memories(quick: bool) -> Iterator[Row]:
    """What a day of memory gives over two hours, at one and at twelve hours."""
    data = forecasting.load_wind(quick)
    assert data is not None
    began, errors = time.process_time(), []
    torch.set_num_threads(1)
    with threadpool_limits(1):
        for memory in (2, 24):
            model = KernelForecaster([12, 24], memory, "zm->s", random_state=0).fit(data[0])
            errors.append(model.backtest(data[1]).nrmse)
    seconds = time.process_time() - began
    note = "memory: the mean over the stations of figure 7.6, of which 84 % gain; another station here"
    change = float(errors[1][1] - errors[0][1])
    what = "24 hours ahead: NRMSE with a day of memory less that with two hours"
    numbers = -0.002, change, 0.005, False, "wind_era5"
    yield Row(THESIS + ", figure 7.6", what, "", *numbers, note=note, seconds=seconds)
    what = "12 hours ahead: NRMSE with a day of memory less that with two hours"
    yield Row(THESIS + ", figure 7.6", what, "", None, float(errors[1][0] - errors[0][0]), 0, False, "wind_era5", note)


def segmentation(quick: bool) -> Iterator[Row]:
    """Differences and ratios between ways to learn, because the pictures are others."""
    if why := vision_data.why_absent():
        note = f"segmentation: {why}"
        for name, (ours, fixed, _, _) in SEGMENTATION.items():
            what = f"{name}: AP50 of masks that adapted proposals give"
            yield Row(THESIS + ", table 6.3", what, "points", ours[0] - fixed[0], None, 0, True, "", note)
        return
    torch.set_num_threads(1)
    with threadpool_limits(1):
        yield from _segmentation(quick)


def _segmentation(quick: bool) -> Iterator[Row]:
    people = vision_data.pedestrians()
    net = vision_data.Remembered(vision.extractor("tiny-vit", size=vision_data.SIZE))
    count, seeds = (8, 1) if quick else (PICTURES, SEEDS)
    runs = {
        way: [vision_instances.trial(people, net, count, way, seed) for seed in range(seeds)]
        for way in ("parallel", "serial")
    }
    parallel, fixed = (np.mean([row[kind] for row in runs["parallel"]], 0) for kind in ("ap", "fixed"))
    serial = np.mean([row["ap"] for row in runs["serial"]], 0)
    times = {way: float(np.mean([row["train"] for row in rows])) for way, rows in runs.items()}
    note = f"segmentation: {count} pictures of Penn-Fudan, one class, {seeds} draws; the directions are compared"
    for name, (ours, constant, later, _) in SEGMENTATION.items():
        for source, what, unit, published, found, neutral in (
            (
                "table 6.3",
                "AP50 of masks that adapted proposals give",
                "points",
                ours[0] - constant[0],
                parallel[2] - fixed[2],
                0.0,
            ),
            (
                "table 6.5",
                "AP70 of boxes that serial training gives",
                "points",
                later[1] - ours[1],
                serial[1] - parallel[1],
                0.0,
            ),
            (
                "table 6.5",
                "time of serial over parallel training",
                "×",
                later[2] / ours[2],
                times["serial"] / times["parallel"],
                1.0,
            ),
        ):
            numbers = published, float(found), 0, True, "pennfudan"
            yield Row(
                f"{THESIS}, {source}",
                f"{name}: {what}",
                unit,
                *numbers,
                note=note,
                neutral=neutral,
                seconds=times["parallel"],
            )
    yield from _heads(quick, people, net)


def _heads(quick: bool, people: vision_data.Pictures, net: vision_data.Remembered) -> Iterator[Row]:
    found = vision_heads.measure(quick, people, net)["heads"]
    note = (
        "heads: the output layers of Mask R-CNN, linear, on the same features and rows, and streams of six Lego models"
    )
    sorted_, shuffled = found["sorted"], found["shuffled"]
    drop = sorted_["1 epochs"][0] - shuffled["1 epochs"][0]
    source, data = "Ceola et al. 2022, tables IX and X", "pennfudan, lego"
    for name, (ordered, mixed) in ONE_EPOCH.items():
        what = f"{name}: AP50 of boxes after one epoch of gradients over sorted frames, less that over shuffled ones"
        yield Row(source, what, "points", ordered - mixed, drop, 0, False, data, note, neutral=-1.0)
    what = "the same of ours"
    yield Row(source, what, "points", 0.0, sorted_["ours"][0] - shuffled["ours"][0], 2.0, False, data, note)
    enough, near = vision_heads.first_near(shuffled)
    enough_words = f"{enough} here, {'the fewest' if near else 'which are not enough'} to come within 2 points"
    ratio = shuffled[enough][2] / shuffled["ours"][2]
    for name, (ours, _, _, layers) in SEGMENTATION.items():
        what = f"{name}: time of fine-tuned layers ({enough_words}) over ours"
        yield Row(THESIS + ", table 6.1", what, "×", layers[2] / ours[2], ratio, 0, True, data, note, comparable=False)


def planes(quick: bool) -> Iterator[Row]:
    """Radiance fields with fewer pixels, smaller planes and a tenth of the steps: directions are compared."""
    found = list(fields_ablations.cases(quick))
    source = THESIS + ", tables 8.2 and 8.4; K-planes, table 5"
    for what, case, published in fields_ablations.values(found):
        data = "moving spheres" if case.part == "smoothness" else "lego"
        numbers = published, case.psnr, 0, True, data
        yield Row(source, f"PSNR, {what}", "dB", *numbers, note=SMALLER, comparable=False, seconds=case.seconds)
    for what, ours, published in fields_ablations.differences(found):
        data = "moving spheres" if "smoothness" in what else "lego"
        yield Row(source, what, "dB", published, ours, 0, True, data, SMALLER, neutral=0.0)
