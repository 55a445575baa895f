"""Chunks on their way to a device, while the one before is worked on."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gyrfalcon.arrays import Dense, to_tensor


class Transfer:
    """Sends chunks to a device from one thread and receives them in another.

    In main memory a chunk stays as it is. To a CUDA device it is copied from pinned memory by a stream of its own, for
    which the stream that computes waits; other devices copy before they compute.
    """

    def __init__(self, device: torch.device):
        self.device = device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def send(self, chunk: Any) -> Any:
        if self.device.type == "cpu":
            return chunk
        if self._stream is None:
            return to_tensor(chunk).to(self.device)
        with torch.cuda.stream(self._stream):
            moved = to_tensor(chunk).pin_memory().to(self.device, non_blocking=True)
            return moved, self._stream.record_event()

    def receive(self, sent: Any) -> Dense:
        if self._stream is None:
            received: Dense = sent
            return received
        moved, copied = sent
        current = torch.cuda.current_stream(self.device)
        current.wait_event(copied)
        assert isinstance(moved, Tensor)
        moved.record_stream(current)  # so that its memory is not given to the next chunk while it is being read
        return moved
