"""GPyTorch's two sparse Gaussian processes, fitted as its documentation does."""

from __future__ import annotations

import gpytorch
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from .datasets import median_distance


def _kernel(X: Tensor) -> gpytorch.kernels.Kernel:
    """A Gaussian kernel with one length scale per feature, from the median distance."""
    inner = gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1])
    inner.lengthscale = median_distance(X.numpy())
    return gpytorch.kernels.ScaleKernel(inner)


def _some_rows(X: Tensor, count: int) -> Tensor:
    return X[torch.randperm(len(X), generator=torch.Generator().manual_seed(0))[:count]].clone()


class SGPR(gpytorch.models.ExactGP):
    def __init__(self, X: Tensor, y: Tensor, likelihood: gpytorch.likelihoods.Likelihood, inducing: int):
        super().__init__(X, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.InducingPointKernel(_kernel(X), _some_rows(X, inducing), likelihood)

    def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class SVGP(gpytorch.models.ApproximateGP):
    def __init__(self, X: Tensor, inducing: int):
        points = _some_rows(X, inducing)
        distribution = gpytorch.variational.CholeskyVariationalDistribution(len(points))
        strategy = gpytorch.variational.VariationalStrategy(self, points, distribution, learn_inducing_locations=True)
        super().__init__(strategy)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = _kernel(X)

    def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def sgpr(X: Tensor, y: Tensor, X_test: Tensor, *, inducing: int, steps: int, learning_rate: float) -> Tensor:
    """Predictions after so many full-batch steps of Adam."""
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = SGPR(X, y, likelihood, inducing)
    bound = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        (-bound(model(X), y)).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad(), gpytorch.settings.skip_posterior_variances():
        return model(X_test).mean


def svgp(
    X: Tensor, y: Tensor, X_test: Tensor, *, inducing: int, epochs: int, batch: int, learning_rate: float
) -> Tensor:
    """Predictions after so many epochs of Adam on minibatches."""
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = SVGP(X, inducing)
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    optimizer = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=learning_rate)
    model.train()
    order = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        for x, target in DataLoader(TensorDataset(X, y), batch, shuffle=True, generator=order):
            optimizer.zero_grad()
            (-bound(model(x), target)).backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return torch.cat([model(x).mean for x in X_test.split(batch)])
