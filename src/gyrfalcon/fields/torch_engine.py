"""The same operations with PyTorch, for any device; derivatives by autograd."""

from __future__ import annotations

import torch
from torch import Tensor

from .cube import clip
from .engine import (
    LARGEST_LOG_DENSITY,
    LARGEST_LOG_SLOPE,
    AdamState,
    Gathered,
    RayBatch,
    Samples,
)
from .layout import Layout
from .warps import contract


def plane_features(layout: Layout, parameters: Tensor, points: Tensor) -> Tensor:
    """f(q) of each point with operations that autograd follows."""
    inside = points.clamp(0, 1)
    scales: list[Tensor | None] = [None] * len(layout.sizes)
    for plane, view in layout.views(parameters):
        value = _interpolate(view, inside[:, plane.first], inside[:, plane.second])
        before = scales[plane.scale]
        if before is not None:
            value = before * value if layout.multiplies else before + value
        scales[plane.scale] = value
    return torch.cat([scale for scale in scales if scale is not None], 1)


def _interpolate(plane: Tensor, first: Tensor, second: Tensor) -> Tensor:
    rows, columns = plane.shape[:2]
    a, b = first * (columns - 1), second * (rows - 1)
    i, j = a.detach().long().clamp(max=columns - 2), b.detach().long().clamp(max=rows - 2)
    u, v = (a - i)[:, None], (b - j)[:, None]
    here, down = plane[j, i], plane[j + 1, i]
    here, down = here + u * (plane[j, i + 1] - here), down + u * (plane[j + 1, i + 1] - down)
    return here + v * (down - here)


class _TruncatedExponential(torch.autograd.Function):
    """exp, not above a bound, and with derivatives that stop growing sooner."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.clamp(max=LARGEST_LOG_DENSITY).exp()

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *slopes: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors  # type: ignore[attr-defined]
        slope: Tensor = slopes[0] * x.clamp(max=LARGEST_LOG_SLOPE).exp()
        return slope


def _behind(values: Tensor, offsets: Tensor) -> Tensor:
    """Sums of the values of a ray up to and with each sample, in float64."""
    sums = values.double().cumsum(0)
    before = torch.cat([sums.new_zeros(1), sums])[offsets[:-1]]
    return (sums - before.repeat_interleave(offsets.diff())).to(values.dtype)


def _per_ray(samples: Samples, values: Tensor) -> Tensor:
    rays = len(samples.offsets) - 1
    return values.new_zeros((rays, *values.shape[1:])).index_add(0, samples.rays, values)


def gather(samples: Samples, outputs: Tensor, shift: float, background: Tensor | None) -> Gathered:
    """The rendering equation with operations that autograd follows."""
    optical = _TruncatedExponential.apply(outputs[:, 0] + shift) * samples.lengths  # type: ignore[no-untyped-call]
    behind = _behind(optical, samples.offsets)
    weights = torch.exp(optical - behind) * -torch.expm1(-optical)
    opacity = _per_ray(samples, weights)
    color = outputs.new_zeros((len(opacity), 0))
    if background is not None:
        left = torch.exp(-_per_ray(samples, optical))
        color = _per_ray(samples, weights[:, None] * torch.sigmoid(outputs[:, 1:])) + left[:, None] * background
    return Gathered(color, _per_ray(samples, weights * samples.distances), opacity, weights)


class TorchEngine:
    """The operations of `Engine` with PyTorch."""

    @torch.no_grad()
    def features(self, layout: Layout, parameters: Tensor, points: Tensor) -> Tensor:
        return plane_features(layout, parameters, points)

    def features_backward(
        self,
        layout: Layout,
        parameters: Tensor,
        points: Tensor,
        slope: Tensor,
        in_parameters: Tensor,
        *,
        in_points: bool = False,
    ) -> Tensor | None:
        with torch.enable_grad():
            inputs = [parameters.detach().requires_grad_(), points.detach().requires_grad_(in_points)]
            found = torch.autograd.grad(plane_features(layout, *inputs), inputs[: 1 + in_points], slope)
        in_parameters += found[0]
        return found[1] if in_points else None

    @torch.no_grad()
    def decode(
        self,
        layout: Layout,
        parameters: Tensor,
        points: Tensor,
        offsets: Tensor,
        basis: Tensor | None,
        density_basis: Tensor,
        *,
        lengths: Tensor | None = None,
        shift: float = 0.0,
    ) -> tuple[Tensor, Tensor]:
        counts = offsets.diff()  # rays are followed to their ends: nothing is saved by stopping
        return self._outputs(layout, parameters, points, counts, basis, density_basis), counts

    def decode_backward(
        self,
        layout: Layout,
        parameters: Tensor,
        points: Tensor,
        offsets: Tensor,
        counts: Tensor,
        basis: Tensor | None,
        density_basis: Tensor,
        slope: Tensor,
        in_parameters: Tensor,
    ) -> tuple[Tensor | None, Tensor]:
        with torch.enable_grad():
            inputs = [parameters.detach().requires_grad_(), density_basis.detach().requires_grad_()]
            inputs += [] if basis is None else [basis.detach().requires_grad_()]
            outputs = self._outputs(
                layout, inputs[0], points, offsets.diff(), inputs[2] if basis is not None else None, inputs[1]
            )
            found = torch.autograd.grad(outputs, inputs, slope)
        in_parameters += found[0]
        return found[2] if basis is not None else None, found[1]

    @staticmethod
    def _outputs(
        layout: Layout, parameters: Tensor, points: Tensor, counts: Tensor, basis: Tensor | None, density_basis: Tensor
    ) -> Tensor:
        features = plane_features(layout, parameters, points)
        density = (features * density_basis).sum(1, keepdim=True)
        if basis is None:
            return density
        return torch.cat([density, (basis.repeat_interleave(counts, 0) * features[:, None]).sum(2)], 1)

    @torch.no_grad()
    def update(self, layout: Layout, state: AdamState, slopes: Tensor, rate: float) -> None:
        gradient = state.gradient
        of_planes = zip(layout.views(gradient), layout.views(state.parameters), slopes.tolist(), strict=True)
        for (_, slope), (_, view), (first, second, bends, ones) in of_planes:
            for dim, weight in ((1, first), (0, second)):
                step = weight * view.diff(dim=dim)
                slope.narrow(dim, 1, view.shape[dim] - 1).add_(step)
                slope.narrow(dim, 0, view.shape[dim] - 1).sub_(step)
            if bends and len(view) > 2:
                bend = bends * view.diff(n=2, dim=0)
                slope[:-2] += bend
                slope[1:-1] -= 2 * bend
                slope[2:] += bend
            if ones:
                slope += ones * torch.sign(view - 1)
        state.advance(gradient, rate)
        gradient.zero_()

    def march(self, rays: RayBatch, occupied: Tensor, step: float, contracted: bool) -> Samples:
        near, far = rays.nearest, rays.farthest
        if not contracted:
            near, far = clip(rays)
        distances, lengths = _steps(rays, near, far, step, contracted)
        points = rays.origins[:, None] + distances[:, :, None] * rays.directions[:, None]
        points = contract(points) / 4 + 0.5 if contracted else points / 2 + 0.5
        cells = len(occupied)
        place = (points.clamp(0, 1) * cells).long().clamp(max=cells - 1)
        kept = occupied[place[..., 2], place[..., 1], place[..., 0]].bool() & (distances < far[:, None])
        offsets = torch.nn.functional.pad(kept.sum(1).cumsum(0), (1, 0))
        chosen = points[kept]
        if rays.times is not None:
            times = rays.times[:, None].expand_as(distances)[kept]
            chosen = torch.cat([chosen, times[:, None]], 1)
        return Samples(offsets, distances[kept], lengths[kept], chosen)

    @torch.no_grad()
    def composite(self, samples: Samples, outputs: Tensor, shift: float, background: Tensor | None) -> Gathered:
        return gather(samples, outputs, shift, background)

    def composite_backward(
        self,
        samples: Samples,
        outputs: Tensor,
        shift: float,
        background: Tensor | None,
        in_color: Tensor | None,
        *,
        in_weights: Tensor | None = None,
    ) -> Tensor:
        with torch.enable_grad():
            given = outputs.detach().requires_grad_()
            found = gather(samples, given, shift, background)
            loss = outputs.new_zeros(())
            if in_color is not None:
                loss = loss + (found.color * in_color).sum()
            if in_weights is not None:
                loss = loss + (found.weights * in_weights).sum()
            (slope,) = torch.autograd.grad(loss, given)
        return slope

    def distortion(self, samples: Samples, weights: Tensor) -> tuple[Tensor, Tensor]:
        w, m = weights.double(), samples.distances.double()
        rays = samples.rays
        mass, moment = _behind(w, samples.offsets), _behind(w * m, samples.offsets)
        all_mass, all_moment = _per_ray(samples, w)[rays], _per_ray(samples, w * m)[rays]
        # Σ_j w_j |m - m_j|, before and behind
        spread = m * (mass - w) - (moment - w * m) + (all_moment - moment) - m * (all_mass - mass)
        own = w * samples.lengths / 3
        values = _per_ray(samples, w * (spread + own))
        return values.to(weights.dtype), (2 * (spread + own)).to(weights.dtype)


def _steps(rays: RayBatch, near: Tensor, far: Tensor, step: float, contracted: bool) -> tuple[Tensor, Tensor]:
    """Distances of samples and their lengths, for as many steps as the longest ray takes."""
    if not contracted:
        count = max(1, int(((far - near).max() / step).ceil())) if len(near) else 1
        k = torch.arange(count, device=near.device, dtype=near.dtype)
        distances = near[:, None] + (k + rays.jitter[:, None]) * step
        return distances, torch.full_like(distances, step)
    found: list[Tensor] = []
    lengths: list[Tensor] = []
    t = near + rays.jitter * step
    while not found or bool((t < far).any()):
        size = (rays.origins + t[:, None] * rays.directions).abs().amax(1).clamp(min=1)
        found.append(t)
        lengths.append(step * size)
        t = t + step * size
    return torch.stack(found, 1), torch.stack(lengths, 1)
