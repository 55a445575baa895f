"""What pages are tested with: objects for their workers, which processes import from here, and pictures."""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from time import sleep

import numpy as np
import torch
from scipy import ndimage
from torch.nn import functional

from gyrfalcon.fields.page import Studio
from gyrfalcon.fields.stage import Stage
from gyrfalcon.fields.views import UnwantedError
from gyrfalcon.vision import InstanceSegmenter


class Bench:
    """Something to call."""

    def __init__(self):
        self.total = 0

    def add(self, number):
        self.total += number
        return self.total

    def fail(self, error):
        raise error

    def digest(self, data):
        return hashlib.sha256(data).hexdigest()

    def wait_for(self, path):
        while not os.path.exists(path):
            sleep(0.01)
        return "done"


def broken(deadly, refused=""):
    """A Bench; but the process ends if the first file exists, and there is an error if the second does."""
    if os.path.exists(deadly):
        os._exit(3)
    if refused and os.path.exists(refused):
        raise OSError("no weights here")
    return Bench()


@dataclass(frozen=True)
class Seen:
    label: str
    score: float
    box: tuple
    mask: np.ndarray


class ColorTeacher:
    """A teacher that knows objects by their mean color: what the teaching page is tested with.

    `gate`, the path of a file, makes `train` wait until that file exists.
    """

    radius = 60.0  # how far a color may be from the mean of its class

    def __init__(self, gate=""):
        self.classes_, self.frames, self.means, self.gate, self.count = [], {}, {}, gate, 0

    def add_class(self, name):
        self.classes_.append(name)

    def observe(self, frame, marks, ignore=None):
        kept = []
        for label, shapes in marks.items():
            assert label in self.classes_
            for shape in shapes:
                if shape.dtype != bool:  # the middle of a box
                    left, top, right, bottom = shape
                    x, y = np.meshgrid(np.arange(frame.shape[1]), np.arange(frame.shape[0]))
                    shape = (abs(2 * x - left - right) < (right - left) / 2) & (
                        abs(2 * y - top - bottom) < (bottom - top) / 2
                    )
                kept.append((label, frame[shape].mean(axis=0)))
        self.count += 1
        self.frames[self.count] = kept
        return self.count

    def train(self):
        while self.gate and not os.path.exists(self.gate):
            sleep(0.01)
        colors = [pair for kept in self.frames.values() for pair in kept]
        self.means = {
            name: np.mean([color for label, color in colors if label == name], axis=0)
            for name in self.classes_
            if any(label == name for label, _ in colors)
        }

    def predict(self, frame):
        found = []
        for label, mean in self.means.items():
            near = np.linalg.norm(frame.astype(float) - mean, axis=2) < self.radius
            parts, count = ndimage.label(near)
            for place, (rows, columns) in enumerate(ndimage.find_objects(parts, count)):
                mask = parts == place + 1
                if mask.sum() > 150:
                    found.append(Seen(label, 0.9, (columns.start, rows.start, columns.stop, rows.stop), mask))
        return found

    def forget(self, frame_id):
        del self.frames[frame_id]

    def save(self, path):
        Path(path).write_text(json.dumps({name: list(map(float, mean)) for name, mean in self.means.items()}))

    @classmethod
    def load(cls, path):
        teacher = cls()
        teacher.means = {name: np.array(mean) for name, mean in json.loads(Path(path).read_text()).items()}
        teacher.classes_ = list(teacher.means)
        return teacher


def color_teacher(path="", gate=""):
    """A teacher and whether it is trained, from a file if there is one."""
    return (ColorTeacher.load(path), True) if path else (ColorTeacher(gate), False)


def colors_of(image):
    """An extractor that needs no weights: smoothed colors, whether there is much of each, and a map twice as coarse."""
    pixels = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)[None].float() / 255
    fine, coarse = (functional.avg_pool2d(pixels, side)[0] for side in (8, 16))
    return {8: torch.cat([fine, fine**2, 1 - fine]), 16: torch.cat([coarse, coarse**2])}


def segmenter(path=""):
    """The real teacher, on colors alone, and whether it is trained."""
    if path:
        return InstanceSegmenter.load(path, colors_of), True
    return InstanceSegmenter(colors_of, n_centers=(200, 200, 200), n_batches=2), False


COLORS = {"ball": (230, 120, 30), "brick": (40, 90, 210)}


def scene(step, steps=40, size=(240, 320)):
    """A picture of a ball and a brick that move over a gray wall, and their masks."""
    height, width = size
    y, x = np.mgrid[:height, :width]
    turn = 2 * np.pi * step / steps
    wall = 120 + 14 * np.sin(x / 9) + 14 * np.cos(y / 7)
    picture = np.repeat(wall[:, :, None], 3, axis=2)
    ball = np.hypot(x - width * (0.35 + 0.15 * np.cos(turn)), y - height * (0.5 + 0.22 * np.sin(turn))) < height * 0.15
    brick = (abs(x - width * (0.75 - 0.08 * np.cos(turn))) < width * 0.09) & (
        abs(y - height * (0.5 - 0.25 * np.sin(turn))) < height * 0.1
    )
    masks = {"ball": ball, "brick": brick}
    for name, mask in masks.items():
        picture[mask] = COLORS[name]
    return picture.astype(np.uint8), masks


class BallField:
    """A field to view: a white ball and a red one that moves. `gate` makes fine pictures wait for a file."""

    tints = ((1.0, 1.0, 1.0), (0.4, 1.0, 0.4), (0.5, 0.6, 1.0))

    def __init__(self, gate=""):
        self.gate, self.unwanted = gate, []

    def stage(self):
        pose = np.eye(4)
        pose[:3, :3] = [[1, 0, 0], [0, 0, -1], [0, 1, 0]]  # looks along y, and z is up
        pose[1, 3] = -4
        return Stage(pose.tolist(), [0.0, 0.0, 0.0], [0.0, 0.0, 1.0], (120, 160), (0.0, 2.0), len(self.tints))

    def render(self, pose, shape, *, time=None, appearance=None, wanted=None):
        while self.gate and shape[1] > 100 and not os.path.exists(self.gate):
            if wanted is not None and not wanted():
                self.unwanted.append(time)
                raise UnwantedError
            sleep(0.01)
        height, width = shape
        rows, columns = np.mgrid[:height, :width]
        across, up = (columns + 0.5) / width - 0.5, -((rows + 0.5) / height - 0.5) * height / width
        rays = np.stack([across, up, -0.9 * np.ones(shape)], 2) @ pose[:3, :3].T
        rays /= np.linalg.norm(rays, axis=2, keepdims=True)
        color, depth = np.full((*shape, 3), 0.35), np.full(shape, np.inf)
        balls = [((0, 0, 0), 0.7, (1, 1, 1)), ((1.1, 0, 0.8 * np.sin(np.pi * (time or 0))), 0.35, (0.9, 0.1, 0.1))]
        for center, radius, paint in balls:
            away = pose[:3, 3] - np.array(center)
            half = rays @ away
            inside = half**2 - away @ away + radius**2
            reach = -half - np.sqrt(np.maximum(inside, 0))
            hit = (inside > 0) & (reach > 0) & (reach < depth)
            depth[hit] = reach[hit]
            normals = (away + reach[:, :, None] * rays)[hit] / radius
            color[hit] = np.array(paint) * (0.55 + 0.45 * normals[:, 2:])
        opacity = np.isfinite(depth).astype(float)
        return color * self.tints[appearance or 0], np.where(opacity > 0, depth, 0.0), opacity


def ball_field(gate=""):
    return Studio(BallField(gate))


def write_y4m(path, pictures, rate=10):
    """Pictures as a raw video, which Chromium can take for a camera."""
    with open(path, "wb") as file:
        height, width = pictures[0].shape[:2]
        file.write(f"YUV4MPEG2 W{width} H{height} F{rate}:1 Ip A1:1 C420jpeg\n".encode())
        for picture in pictures:
            red, green, blue = np.moveaxis(picture.astype(float), 2, 0)
            luma = 0.299 * red + 0.587 * green + 0.114 * blue
            planes = [luma] + [
                128 + scale * (color - luma).reshape(height // 2, 2, width // 2, 2).mean(axis=(1, 3))
                for scale, color in ((0.564, blue), (0.713, red))
            ]
            file.write(
                b"FRAME\n" + b"".join(np.clip(plane + 0.5, 0, 255).astype(np.uint8).tobytes() for plane in planes)
            )
