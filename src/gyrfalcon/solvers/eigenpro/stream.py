"""EigenPro 3 on batches that come once: augmented data, or more rows than anyone keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gyrfalcon.arrays import Array, as_numpy, as_vectors
from gyrfalcon.kernels import Kernel
from gyrfalcon.matrix import KernelMatrix

from ..problem import LeastSquares
from ..rounding import needs_float64
from ..solution import Callback, Record, Solution, Step
from .eigenfunctions import SHARE
from .network import Network
from .projection import checked_projection, project_with
from .solver import check_kernel, checked_count

FORGETTING = 3  # of t iterates, the average gives the i-th a weight like i³: early ones do not linger

SOON = 4  # batches in which a step in every direction should be made


def eigenpro_stream(
    kernel: Kernel | str,
    C: Any,
    batches: Iterable[tuple[Any, Any]],
    *,
    start: Tensor | None = None,
    callback: Callback | None = None,
    projection: str = "auto",
    projection_epochs: int = 2,
    sample_size: int | None = None,
    n_functions: int | None = None,
    random_state: int = 0,
    memory_budget: int | None = None,
) -> Solution:
    """Fit f = Σⱼ βⱼ k(·, cⱼ) to batches of rows and targets, each seen once: one step a batch, the iterates averaged.

    Nothing is kept of a batch. The preconditioner comes from the centers and the first batch, steps from the steepest
    of the batches looked at: the first three and every tenth. The average over the later iterates is the solution,
    since single ones keep the noise of the last batches. There is no penalty and no intercept.

    Parameters
    ----------
    kernel : Kernel or str
    C : array, tensor or CSR of shape (p, d)
        The centers, without labels.
    batches : iterable of (X, Y)
        X like C, Y of shape (rows,) or (rows, t) and of the type of X. Some hundred rows each are best.
    start : tensor of shape (p, t), optional
        Coefficients to begin from; if they are so large that float32 entries of K are not enough for them, float64
        ones are made.
    callback : callable (Step) -> bool, optional
        Called after each batch; True ends the fit. Residual and objective are those of the batch before its step.
    projection, projection_epochs, sample_size, n_functions, random_state
        As for `EigenPro`; there are an eighth as many functions as rows in the first batch if not given.
    memory_budget : int, optional
        As for `KernelMatrix`.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf
    >>> random = np.random.default_rng(0)
    >>> C = np.linspace(-3, 3, 50)[:, None]
    >>> def batches():
    ...     for _ in range(100):
    ...         X = random.uniform(-3, 3, size=(200, 1))
    ...         yield X, np.sin(X)
    >>> solution = gf.solvers.eigenpro_stream(gf.kernels.Laplacian(1.0), C, batches())
    >>> f = gf.KernelMatrix(gf.kernels.Laplacian(1.0), C) @ solution.coefficients.numpy()
    >>> bool(np.abs(f - np.sin(C)).max() < 0.02)
    True
    """
    checked_projection(projection)
    sample, functions = checked_count(sample_size, "sample_size"), checked_count(n_functions, "n_functions")
    checked_count(projection_epochs, "projection_epochs")
    run: _Stream | None = None
    wide = False
    residuals: list[float] = []
    values: list[float] = []
    for X, Y in batches:
        K = KernelMatrix(kernel, X, C, memory_budget=memory_budget, cache=False)
        if K.shape[0] == 0:
            continue
        targets = as_vectors(Y, "Y", K.shape[0], K.dtype, K.device).detach().double()
        if run is None:
            check_kernel(K)
            if start is not None:
                first = LeastSquares(K, targets.to(K.dtype), 0.0)
                first.check_start(start)
                wide = needs_float64(first, start)
        elif targets.shape[1] != run.beta.shape[1]:
            raise ValueError(f"Y has {targets.shape[1]} columns but those before had {run.beta.shape[1]}")
        K = K.widened() if wide else K
        if run is None:
            project = project_with(K, projection, projection_epochs, random_state)
            network = Network(
                K,
                project,
                reach=SOON * K.shape[0],
                sample=sample,
                functions=functions or max(1, K.shape[0] // SHARE),
                seed=random_state,
            )
            run = _Stream(network, start, targets.shape[1])
        residual, value = run.learn(K, targets)
        residuals.append(residual)
        values.append(value)
        if callback is not None and callback(Step(len(residuals), residual, value, run.solution())):
            break
    if run is None:
        raise ValueError("batches must yield at least one pair (X, Y) with rows: a generator can be used up only once")
    record = Record(
        solver="eigenpro",
        iterations=len(residuals),
        residuals=residuals,
        message=f"learned from {len(residuals)} batches",
        jitter=run.network.project.jitter,
        objective=run.objective.tolist(),
        objective_history=values,
        reason=f"eigenpro 3, {run.network.project.name} projection, streamed",
    )
    return Solution(*run.solution()(), record)


class _Stream:
    """The iterate, the average of those so far, and that of their mean squares on batches they had not seen."""

    def __init__(self, network: Network, start: Tensor | None, outputs: int):
        p, device = network.K.shape[1], network.K.device
        self.network, self.steps, self.steepest = network, 0, 0.0
        self.beta = torch.zeros(p, outputs, dtype=torch.float64, device=device)
        if start is not None:
            self.beta += start.detach().to(self.beta)
        self.average = self.beta.clone()
        self.objective: Array = np.zeros(outputs)
        self._none = torch.zeros(1, outputs, dtype=torch.float64, device=device)

    def learn(self, K: KernelMatrix, Y: Tensor) -> tuple[float, float]:
        network = self.network
        block = network.block(K)
        gaps = network.predict(block, self.beta, self._none) - Y
        if self.steps < 3 or self.steps % 10 == 0:
            self.steepest = max(self.steepest, network.curvature(block, None) / len(Y))
        if self.steepest > 0:
            theta, _ = network.direction(*network.gradient(block, gaps))
            self.beta -= theta / (self.steepest * len(Y))
        self.steps += 1
        share = (FORGETTING + 1) / (self.steps + FORGETTING)
        self.average += share * (self.beta - self.average)
        self.objective += share * (as_numpy(gaps.square().mean(0)) - self.objective)
        size = float(Y.norm())
        error = float(gaps.norm())
        return error / size if size else error, error**2 / len(Y)

    def solution(self) -> Callable[[], tuple[Tensor, Tensor]]:
        average, intercept = self.average.cpu().clone(), self._none[0].cpu().clone()
        return lambda: (average, intercept)
