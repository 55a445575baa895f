"""The weighted, penalized risk for any loss, and what it needs of the predictions."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from gyrfalcon.losses import Loss
from gyrfalcon.matrix import KernelMatrix

from .problem import Problem


@dataclass
class Risk(Problem):
    """min over f, b of Σᵢ wᵢ ℓ(f(xᵢ) + b, yᵢ) / Σᵢ wᵢ + penalty ‖f‖², f = Σⱼ βⱼ k(·, cⱼ).

    Parameters
    ----------
    K : KernelMatrix of shape (n, m)
    Y : tensor of shape (n, t)
        As the loss wants them: -1 and 1, codes of a simplex, one-hot rows, or numbers.
    penalty : float
    loss : Loss
    weights : tensor of shape (n, 1), optional
        Zero or more each.
    intercept : bool

    Examples
    --------
    >>> import torch, gyrfalcon as gf
    >>> from gyrfalcon.losses import Logistic
    >>> X = torch.linspace(-3, 3, 500)[:, None]
    >>> Y = torch.sign(torch.sin(2 * X))
    >>> K = gf.KernelMatrix(gf.kernels.Gaussian(0.5), X, X[::20])
    >>> solution = gf.solvers.solve(gf.solvers.Risk(K, Y, penalty=1e-6, loss=Logistic()), "newton")
    >>> bool((Y * (K @ solution.coefficients.float()) > 0).all())
    True
    """

    K: KernelMatrix
    Y: Tensor
    penalty: float
    loss: Loss
    weights: Tensor | None = None
    intercept: bool = False
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.loss.check_targets(self.Y)

    def _target_types(self) -> tuple[torch.dtype, ...]:
        return torch.float32, torch.float64  # losses are computed in float64

    def mean(self, values: Tensor) -> Tensor:
        """Σᵢ wᵢ valuesᵢ / Σᵢ wᵢ over the rows."""
        return self.weighted(values).sum(0) / self.total_weight

    def weighted(self, values: Tensor) -> Tensor:
        """Each row times its weight."""
        if self.weights is None:
            return values
        weights = self.weights.double()
        return weights * values if values.ndim == 2 else weights[:, 0] * values

    def empirical(self, F: Tensor) -> float:
        """The mean loss of predictions F."""
        return float(self.mean(self.loss.value(F, self.Y)))
