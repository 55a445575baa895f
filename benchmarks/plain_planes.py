"""K-planes as one writes them with PyTorch: NCHW planes, `grid_sample`, autograd, and Adam. The peer of `fields`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gyrfalcon.fields.engine import AdamState
from gyrfalcon.fields.layout import Layout
from gyrfalcon.fields.torch_engine import TorchEngine

VARIATION = 1e-4


class PlainEngine(TorchEngine):
    """An engine whose planes are parameters of PyTorch; graphs are kept from forward to backward, as autograd does."""

    def __init__(self) -> None:
        self.planes: list[Tensor] | None = None
        self.optimizer: Any = None
        self.graph: Tensor | None = None
        self.inputs: list[Tensor] = []

    def _planes(self, layout: Layout, parameters: Tensor) -> list[Tensor]:
        if self.planes is None:
            self.planes = [
                view.permute(2, 0, 1)[None].clone().contiguous().requires_grad_()
                for _, view in layout.views(parameters)
            ]
            self.optimizer = torch.optim.Adam(self.planes, lr=1.0, betas=(0.9, 0.99), eps=1e-15)
        return self.planes

    def _sample(self, layout: Layout, parameters: Tensor, points: Tensor) -> Tensor:
        scales: list[Tensor] = []
        for plane, values in zip(layout.planes, self._planes(layout, parameters), strict=True):
            grid = (2 * points[:, [plane.first, plane.second]] - 1).view(1, 1, -1, 2)
            found = torch.nn.functional.grid_sample(values, grid, align_corners=True, padding_mode="border")[0, :, 0].T
            if plane.scale == len(scales):
                scales.append(found)
            else:
                scales[plane.scale] = scales[plane.scale] * found
        return torch.cat(scales, 1)

    def decode(  # type: ignore[override]
        self,
        layout: Layout,
        parameters: Tensor,
        points: Tensor,
        offsets: Tensor,
        basis: Tensor | None,
        density_basis: Tensor,
        **unused: Any,
    ) -> tuple[Tensor, Tensor]:
        counts = offsets.diff()
        training = basis is not None and basis.requires_grad
        with torch.set_grad_enabled(training):
            inputs = [t.detach().requires_grad_(training) for t in (density_basis, basis) if t is not None]
            features = self._sample(layout, parameters, points)
            outputs = features @ inputs[0][:, None]
            if basis is not None:
                colors = (inputs[1].repeat_interleave(counts, 0) * features[:, None]).sum(2)
                outputs = torch.cat([outputs, colors], 1)
        if training:
            self.graph, self.inputs = outputs, inputs
        return outputs.detach(), counts

    def decode_backward(self, layout: Layout, *given: Any) -> tuple[Tensor | None, Tensor]:  # type: ignore[override]
        slope = given[-2]
        assert self.graph is not None
        self.graph.backward(slope)  # type: ignore[no-untyped-call]
        return self.inputs[1].grad, self.inputs[0].grad  # type: ignore[return-value]

    def update(self, layout: Layout, state: AdamState, slopes: Tensor, rate: float) -> None:
        assert self.planes is not None
        state.step += 1
        variation = torch.zeros(())
        for plane in self.planes:
            nodes = plane.shape[2] * plane.shape[3]
            squares = plane.diff(dim=2).square().sum() + plane.diff(dim=3).square().sum()
            variation = variation + squares / (len(self.planes) * nodes)
        (VARIATION * variation).backward()  # type: ignore[no-untyped-call]
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad()
