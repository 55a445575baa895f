"""Fields that are trained for processor time, and the scene on which they are."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gyrfalcon.fields import KPlanes, Rays
from gyrfalcon.fields.building import new_field
from gyrfalcon.fields.draws import Draws
from gyrfalcon.fields.field import Field
from gyrfalcon.fields.layout import PenaltyWeights
from gyrfalcon.fields.training import Goals, Trainer
from gyrfalcon.fields.views import picture
from gyrfalcon.threads import one_thread_each

Array = np.ndarray[Any, Any]


class ProcessorTime:
    """Trains for processor time, all threads together, so that other work on the machine changes nothing."""

    def __init__(
        self,
        model: KPlanes,
        rays: Rays,
        seconds: float | None,
        steps: int | None,
        engine: Any = None,
        most_rays: int | None = None,
    ):
        generator = torch.Generator().manual_seed(0)
        self.field: Field = new_field(model, rays, generator)
        if engine is not None:
            self.field.engine = engine
        weights = PenaltyWeights(model.variation, model.time_smoothness, model.transients)
        goals = Goals(steps, seconds, weights, model.distortion)
        self.trainer = Trainer(self.field, Draws.of(rays, model.importance), goals, generator)
        self.most_rays = most_rays  # of a step
        self.rays = 0
        self.seconds = 0.0

    @one_thread_each
    def train(self) -> None:
        while self.trainer.progress < 1:
            self.trainer.rays_per_step = min(self.trainer.rays_per_step, self.most_rays or self.trainer.rays_per_step)
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


def lego(quick: bool) -> tuple[Rays, Array, Array] | None:
    """Rays of the training views, test pictures and their poses, if the data are there."""
    path = Path(os.environ.get("GYRFALCON_DATA", "."), "lego", "data.npz")
    if not path.is_file():
        return None
    data = np.load(path)
    images = data["train_rgba"][..., :3]
    focal = 0.5 * images.shape[2] / np.tan(0.5 * float(data["camera_angle_x"]))
    rays = Rays.from_poses(images, data["train_pose"], focal)
    every = 50 if quick else 1
    return rays, data["test_rgba"][::every, ..., :3], data["test_pose"][::every]
