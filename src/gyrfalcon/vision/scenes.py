"""Generated scenes: textures of many scales with shapes in front of them, for calibration, examples and tests."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def texture(random: np.random.Generator, shape: tuple[int, int], power: float) -> Array:
    """Colored noise of shape (3, height, width) whose amplitude falls with the frequency to a power."""
    height, width = shape
    waves = np.fft.rfft2(random.normal(size=(3, height, width)))
    frequency = np.hypot(np.fft.fftfreq(height)[:, None] * height, np.fft.rfftfreq(width)[None] * width) + 1
    noise = np.einsum("ij,jhw->ihw", random.normal(size=(3, 3)) / 2 + 1, np.fft.irfft2(waves / frequency**power, shape))
    noise = (noise - noise.mean((1, 2), keepdims=True)) / noise.std((1, 2), keepdims=True)
    return np.asarray(noise * random.uniform(20, 60) + random.uniform(40, 215, (3, 1, 1)))


def scene(random: np.random.Generator, shape: tuple[int, int] = (384, 512), shapes: int = 40) -> Array:
    """An image of uint8 of shape (height, width, 3) with textured and striped shapes in front of a texture.

    >>> import numpy as np
    >>> from gyrfalcon.vision import scene
    >>> scene(np.random.default_rng(0), (48, 64)).shape
    (48, 64, 3)
    """
    picture = texture(random, shape, random.uniform(0.8, 1.6))
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    for _ in range(shapes):
        middle = random.uniform(0, shape[0]), random.uniform(0, shape[1])
        half, turn = np.exp(random.uniform(2, 4.6, 2)), random.uniform(0, np.pi)
        along = (columns - middle[1]) * np.cos(turn) + (rows - middle[0]) * np.sin(turn)
        across = (rows - middle[0]) * np.cos(turn) - (columns - middle[1]) * np.sin(turn)
        corner = random.choice([1, 2, 8])
        inside = np.abs(along / half[0]) ** corner + np.abs(across / half[1]) ** corner < 1
        if random.random() < 0.5:
            paint = texture(random, shape, random.uniform(0.5, 2.0))
        else:
            paint = random.uniform(0, 255, (3, 1, 1)) + 30 * np.sin(along / random.uniform(1, 10))
        picture = np.where(inside, paint, picture)
    return np.ascontiguousarray(np.clip(picture, 0, 255).astype(np.uint8).transpose(1, 2, 0))
