"""Fused products by the compiled core: the kernel matrix lives in cache, tile by tile, and nowhere else."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gyrfalcon import kernels
from gyrfalcon.arrays import Dense, to_tensor
from gyrfalcon.kernels import Kernel, NativeForm
from gyrfalcon.kernels.base import Parameter, as_number, exponent
from gyrfalcon.kernels.distances import shift_of
from gyrfalcon.native import core as core
from gyrfalcon.threads import threads_of_products

from .autograd import Weights
from .engine import Description, Engine
from .torch_engine import TorchEngine

ROWS_PER_BLOCK = 96  # rows of K that the core keeps per thread during a gram product, at most


def families() -> dict[str, dict[str, Any]]:
    """The kernel families of the compiled core by name: what they are functions of, and whether it differentiates."""
    return {} if core is None else _told_by(core)


@cache
def _told_by(compiled: Any) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = compiled.families()
    return found


def form_of(kernel: Kernel) -> NativeForm | None:
    """How the core reads a kernel that is no expression, if its class says so itself: a subclass may be another."""
    form = kernel.native() if "native" in vars(type(kernel)) else None
    return form if form is not None and form.family in families() else None


def serves(kernel: Kernel) -> bool:
    """Whether the compiled core is there and knows every part of the kernel."""
    if type(kernel) in (kernels.Sum, kernels.Product, kernels.Scaled, kernels.Mapped):
        return all(serves(child) for _, child in kernel.children())
    return form_of(kernel) is not None


def _array(value: Parameter) -> np.ndarray[Any, Any]:
    return np.asarray(value.detach().cpu() if isinstance(value, Tensor) else value, dtype=np.float64)


class Program:
    """The kernel as the core reads it: leaves, and a postfix expression over them.

    Where points come as several views side by side, each of which a map of `views` made, or none, a warped part of the
    kernel sees the columns of its own.
    """

    def __init__(
        self,
        kernel: Kernel,
        C: Tensor,
        shift: np.ndarray[Any, Any] | None = None,
        views: Sequence[kernels.Warped | None] = (None,),
    ):
        self.forms: list[NativeForm] = []
        self.known = families()
        self.leaves: list[tuple[Any, ...]] = []
        self.steps: list[tuple[str, int, float]] = []
        self.views = [None if view is None else view.map for view in views]
        self.features = C.shape[1] // len(views)
        self.shift = shift_of(C).double().numpy() if shift is None else shift
        self._add(kernel, None)

    def degree_of(self, form: NativeForm) -> int:
        """With which power of one over the length scale the argument of the profile grows."""
        return 1 if self.known[form.family]["argument"] == "absolute_distance" else 2

    def _add(self, kernel: Kernel, matrix: np.ndarray[Any, Any] | None, view: int | None = None) -> None:
        match kernel:
            case kernels.Sum() | kernels.Product():
                self._add(kernel.left, matrix, view)
                self._add(kernel.right, matrix, view)
                self.steps.append(("add" if isinstance(kernel, kernels.Sum) else "multiply", 0, 1.0))
            case kernels.Scaled():
                self._add(kernel.kernel, matrix, view)
                self.steps.append(("scale", 0, as_number(kernel.scale)))
            case kernels.Mapped():
                inner = _array(kernel.matrix)
                _check_features("matrix", inner.shape[1], self.features if matrix is None else matrix.shape[0])
                self._add(kernel.kernel, inner if matrix is None else inner @ matrix, view)
            case kernels.Warped():
                self._add(kernel.kernel, matrix, self.views.index(kernel.map))
            case _:
                self._add_leaf(kernel, matrix, self.views.index(None) if view is None else view)

    def _add_leaf(self, kernel: Kernel, matrix: np.ndarray[Any, Any] | None, view: int) -> None:
        form = form_of(kernel)
        assert form is not None
        gain = form.gain
        length_scale = _array(kernel.length_scale)  # type: ignore[attr-defined]
        width = self.features if matrix is None else len(matrix)
        if length_scale.ndim == 1:
            _check_features("length_scale", len(length_scale), width)
            scale = 1 / length_scale
        else:  # a power of two is exact; what is left of the length scale goes into the gain
            power = 2.0 ** -exponent(float(length_scale))
            scale = np.full(width, power)
            gain /= (float(length_scale) * power) ** self.degree_of(form)
        centered = self.known[form.family]["argument"] != "inner_product"
        first = view * self.features
        shift = self.shift[first : first + self.features] if centered else np.zeros(self.features)
        has_matrix = matrix is not None and matrix.size > 0
        entries = (scale[:, None] * matrix).T if matrix is not None and has_matrix else scale
        self.steps.append(("leaf", len(self.leaves), 1.0))
        self.forms.append(form)
        constants = form.family, gain, *(*form.constants, 0.0, 0.0)[:2]
        self.leaves.append((*constants, shift.tolist(), entries.ravel().tolist(), has_matrix, first))


def _check_features(name: str, found: int, features: int) -> None:
    if found != features:
        raise ValueError(f"{name} has {found} entries but the points have {features} features")


class NativeEngine(TorchEngine):
    """Fused C++ products for dense data in main memory; derivatives that the core does not have are PyTorch's."""

    name = "native"
    temporaries = 1

    def __init__(
        self,
        kernel: Kernel,
        X: Dense,
        C: Dense,
        budget: int,
        threads: int | None = None,
        program: Program | None = None,
    ):
        super().__init__(kernel, X, C, budget)
        self._threads = threads
        self.X = X.detach() if isinstance(X, Tensor) else X
        self.C = C.detach() if isinstance(C, Tensor) else C
        self.program = Program(kernel, to_tensor(self.C)) if program is None else program

    def of(self, kernel: Kernel) -> Engine | None:
        if not serves(kernel):
            return None
        other = copy.copy(self)
        other.kernel, other.program = kernel, Program(kernel, to_tensor(self.C), self.program.shift)
        return other

    @property
    def threads(self) -> int:
        return self._threads or threads_of_products()

    def describe(self) -> Description:
        assert core is not None
        return Description(self.threads, ROWS_PER_BLOCK, core.instruction_set())

    def _run(self, task: str, X: Dense, V: Tensor | None, weights: Tensor | None, out: Tensor) -> Tensor:
        assert core is not None
        in_double = out.dtype != self.dtype
        core.run(
            task,
            self.program.leaves,
            self.program.steps,
            X,
            self.C,
            V,
            weights,
            None if in_double else out,
            out if in_double else None,
            self.threads,
            self.budget // 2,
        )
        return out

    def _empty(self, rows: int, columns: int, dtype: torch.dtype | None = None) -> Tensor:
        """Memory of NumPy, which asks for huge pages: the first touch of that of PyTorch may take as long as K does."""
        kind = np.float64 if (dtype or self.dtype) == torch.float64 else np.float32
        return torch.from_numpy(np.empty((rows, columns), kind))

    def block(self, start: int, stop: int) -> Tensor:
        X = self.X[start:stop]
        return self._run("evaluate", X, None, None, self._empty(len(X), self.shape[1]))

    def multiply(self, V: Tensor) -> Tensor:
        return self._run("multiply", self.X, V, None, self._empty(self.shape[0], V.shape[1]))

    def multiply_transposed(self, W: Tensor, dtype: torch.dtype) -> Tensor:
        return self._run("multiply_transposed", self.X, W, None, self._empty(self.shape[1], W.shape[1], dtype))

    def derivatives(self, rows: slice, weights: Weights, wanted: list[bool]) -> list[Tensor | None]:
        if self.differentiates and not wanted[0]:
            return [None, *self.gradients(rows, weights.left, weights.right, *wanted[1:])]
        return super().derivatives(rows, weights, wanted)

    @property
    def differentiates(self) -> bool:
        """Whether `gradients` serves this kernel: one radial part, whose length scale is its only parameter."""
        known = len(self.program.steps) == 1 and self.program.known[self.program.forms[0].family]["differentiable"]
        return known and list(self.kernel.parameters()) == ["length_scale"]

    def gradients(
        self, rows: slice, left: Tensor, right: Tensor | None, in_centers: bool, in_scale: bool
    ) -> tuple[Tensor | None, Tensor | None]:
        """Derivatives of Σ a ∘ K[rows] in C and in the length scale, in float64; a is left rightᵀ, or left alone."""
        assert core is not None
        leaf, length_scale = self.program.leaves[0], _array(self.kernel.length_scale)  # type: ignore[attr-defined]
        _, gain, _, _, _, scale, _, _ = leaf
        # With q = gain ‖z - c‖² and z = (x - shift) scale: sums of k'(q) (z - c), of k'(q) (z - c)² and of k'(q) q; for
        # sums of absolute differences, signs and magnitudes in place of z - c and its square.
        degree = self.program.degree_of(self.program.forms[0])
        center_sums = np.empty((len(self.C), len(scale))) if in_centers else None
        scale_sums = np.empty((1, len(scale))) if in_scale and length_scale.ndim else None
        total = core.run_gradient(
            leaf, self.X[rows], self.C, left, right, center_sums, scale_sums, self.threads, self.budget // 2
        )
        if center_sums is not None:
            center_sums *= -degree * gain * np.array(scale)
        sums = total if scale_sums is None else gain * scale_sums[0]
        return (
            None if center_sums is None else torch.from_numpy(center_sums),
            torch.from_numpy(np.asarray(-degree * sums / length_scale)) if in_scale else None,
        )

    def multiply_gram(self, V: Tensor, weights: Tensor | None, dtype: torch.dtype) -> Tensor:
        kept = self.threads * ROWS_PER_BLOCK * self.shape[1] * self.dtype.itemsize
        if kept > self.budget // 2:
            product = self.multiply(V)
            return self.multiply_transposed(product if weights is None else weights * product, dtype)
        return self._run("multiply_gram", self.X, V, weights, self._empty(self.shape[1], V.shape[1], dtype))
