"""Frequencies that need no matrix: signs and fast Walsh-Hadamard transforms, d log d operations for d of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Dense, device_of, to_tensor, torch_dtype
from gyrfalcon.native import core

from .sampling import radii
from .spectrum import Spectrum

Array = np.ndarray[Any, Any]

SHORTEST = 64  # in fewer dimensions products of signs and H point in too few directions; also what the core asks for
BLOCK_BYTES = 4 << 20


@dataclass(frozen=True)
class Structured:
    """Blocks of p orthogonal frequencies each, the rows of diag(radii)·H D₁ H D₂ H D₃ / p^{3/2}, D of random signs.

    Inputs are padded with zeros to the next power of two, p. A row is distributed nearly, not quite, evenly over the
    sphere: the kernel has an error of order 1/p that more features do not lower.
    """

    signs: Array  # of shape (blocks, 3, p): D₃, D₂, D₁
    radii: Array  # of shape (blocks, p)

    @classmethod
    def draw(cls, spectrum: Spectrum, count: int, random: np.random.Generator) -> Structured:
        """At least so many frequencies."""
        p = max(SHORTEST, 1 << (spectrum.width - 1).bit_length())
        blocks = -(-count // p)
        signs = random.integers(0, 2, size=(blocks, 3, p), dtype=np.int8) * 2 - 1
        return cls(signs.astype(np.int8), radii(spectrum, blocks * p, p, random).reshape(blocks, p))

    def angles(self, Z: Tensor) -> Tensor:
        """⟨z, w⟩ for mapped points z and all frequencies w, of shape (n, blocks · p)."""
        blocks, p = self.radii.shape
        signs = torch.from_numpy(self.signs).to(Z.device, Z.dtype)
        values = torch.nn.functional.pad(Z, (0, p - Z.shape[1]))[:, None]
        for k in range(3):
            values = walsh_hadamard(values * signs[:, k])
        lengths = torch.from_numpy(self.radii * p**-1.5).to(Z.device, Z.dtype)
        return (values * lengths).reshape(len(Z), blocks * p)

    def frequencies(self, width: int) -> Array:
        """All of them as rows."""
        return self.angles(torch.eye(width, dtype=torch.float64)).numpy().T

    def waves(self, X: Dense, map: Array, count: int, amplitude: float) -> Tensor:
        """The first `count` waves, w and -w for each frequency in turn, of points that the map takes to the inputs."""
        if map.ndim == 2:
            rows = to_tensor(X)
            X, map = rows @ torch.from_numpy(map.T).to(rows.device, rows.dtype), np.ones(len(map))
        out = torch.empty(len(X), count, dtype=torch_dtype(X), device=device_of(X))
        if core is not None and out.device.type == "cpu":
            self._natively(X, map, out, amplitude)
            return out
        scale = torch.from_numpy(map).to(out)
        step = max(1, BLOCK_BYTES // (out.element_size() * self.radii.size))
        for start in range(0, len(X), step):
            angles = self.angles(to_tensor(X[start : start + step]) * scale)
            both = torch.stack([angles, -angles], 2).flatten(1)[:, :count]
            out[start : start + step] = torch.cos(both - math.pi / 4) * (math.sqrt(2) * amplitude)
        return out

    def _natively(self, X: Dense, scale: Array, out: Tensor, amplitude: float) -> None:
        assert core is not None
        p = self.radii.shape[1]
        dtype = np.float32 if out.dtype == torch.float32 else np.float64
        core.run_waves(
            X.detach() if isinstance(X, Tensor) else X,
            scale.tolist(),
            self.signs.reshape(-1, p).astype(dtype),
            (self.radii * (p**-1.5 / math.tau)).astype(dtype),
            math.sqrt(2) * amplitude,
            out,
            torch.get_num_threads(),
        )


def walsh_hadamard(values: Tensor) -> Tensor:
    """H v along the last dimension, a power of two, with H = [[1, 1], [1, -1]] ⊗ ... ⊗ [[1, 1], [1, -1]].

    >>> walsh_hadamard(torch.tensor([1.0, 0.0, 2.0, 0.0]))
    tensor([ 3.,  3., -1., -1.])
    """
    length, stride = values.shape[-1], 1
    while stride < length:
        pairs = values.reshape(*values.shape[:-1], length // (2 * stride), 2, stride)
        upper, lower = pairs.unbind(-2)
        values = torch.stack([upper + lower, upper - lower], -2).reshape(*values.shape[:-1], length)
        stride *= 2
    return values
