"""Which engine makes the products, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from scipy import sparse
from torch import Tensor

from gyrfalcon.arrays import to_tensor
from gyrfalcon.data import ArraySource, DaskSource, Source
from gyrfalcon.kernels import Kernel, Warped

from . import native_engine, sparse_engine, views_engine
from .dask_engine import DaskEngine
from .engine import Engine
from .native_engine import NativeEngine
from .sparse_engine import SparseEngine
from .split_engine import SplitEngine
from .streamed_engine import ChunkEngine, StreamedEngine
from .torch_engine import TorchEngine
from .views_engine import ViewsEngine
from .warped_engine import WarpedEngine

Wish = str | Callable[[Kernel, Any, Any, int], Engine] | None
"""The name of an engine, an engine of one's own, which is made of kernel, X, C and a budget, or None for any."""

ENGINES = ("native", "torch", "sparse", "streamed", "dask")


def choose(
    kernel: Kernel, X: Any, C: Any, device: torch.device, budget: int, wish: Wish, threads: int | None = None
) -> tuple[Engine, str]:
    """The engine for points on a device, and the reason; `wish` names one or is one, `threads` are all there are if
    None."""
    if wish is not None and not isinstance(wish, str):
        return wish(kernel, X, C, budget), "as asked"
    if sparse.issparse(X):
        if wish not in (None, "sparse"):
            raise ValueError(f"engine={wish!r} does not take sparse points: leave engine out")
        if not sparse_engine.serves(kernel):
            raise ValueError(f"kernel: {kernel!r} does not take sparse points: convert X with .toarray()")
        return SparseEngine(kernel, X, C, budget), "X is sparse"
    if wish == "sparse":
        raise ValueError("engine='sparse' needs sparse points: convert X with scipy.sparse.csr_array")
    if isinstance(X, DaskSource) and wish != "streamed":
        return _on_cluster(kernel, X, C, device, budget, wish, threads)
    if wish == "dask":
        raise ValueError("engine='dask' needs a Dask array or data frame: open one with gyrfalcon.data.open")
    if isinstance(X, Source):
        make, why = _dense(kernel, device, None if wish == "streamed" else wish, threads)
        name = "native" if why is None else "torch"
        return (
            StreamedEngine(kernel, X, C, budget, make, device),
            f"X is read in chunks, each of which goes to the {name} engine" + (f" because {why}" if why else ""),
        )
    if wish == "streamed":
        raise ValueError("engine='streamed' needs rows that are read in chunks: open them with gyrfalcon.data.open")
    make, why = _dense(kernel, device, wish, threads)
    return make(kernel, X, C, budget), why or "dense points in main memory"


def _on_cluster(
    kernel: Kernel, X: DaskSource, C: Any, device: torch.device, budget: int, wish: Wish, threads: int | None
) -> tuple[Engine, str]:
    if device.type != "cpu":
        raise ValueError(
            f"C is on {device} but the rows of X are with Dask workers, which work in main memory: move C with .cpu(), "
            "or bring the rows here in every product with engine='streamed'"
        )
    make, why = _dense(kernel, device, None if wish == "dask" else wish, threads)
    name = "native" if why is None else "torch"
    where = "in threads of this process" if X.client is None else f"on workers of {X.client.scheduler.address}"
    return DaskEngine(kernel, X, C, budget, make), (
        f"X is in {len(X.parts)} parts, each of which goes to the {name} engine {where}"
        + (f" because {why}" if why else "")
    )


def _dense(kernel: Kernel, device: torch.device, wish: Wish, threads: int | None) -> tuple[ChunkEngine, str | None]:
    """The engine for dense points, and what speaks against the native one if it is another."""
    if wish == "torch":
        why = "as asked"
    elif device.type != "cpu":
        why = f"X is on {device}"
    elif native_engine.core is None:
        why = "the compiled core is not installed"
    elif (make := _native(kernel, threads)) is None:
        why = "the compiled core has no such kernel"
    else:
        return make, None
    if wish == "native":
        raise ValueError(f"engine='native' cannot serve this: {why}")
    return TorchEngine, why


def _native(kernel: Kernel, threads: int | None) -> ChunkEngine | None:
    """The engine of the compiled core, of points as they are, warped, or both where kernels are put together."""
    if native_engine.serves(kernel):
        return partial(NativeEngine, threads=threads)
    if type(kernel) is Warped and native_engine.serves(kernel.kernel):
        return partial(WarpedEngine, threads=threads)
    return partial(ViewsEngine, threads=threads) if views_engine.serves(kernel) else None


def split(
    kernel: Kernel, X: Any, C: Any, budget: int, wish: Wish, devices: Sequence[torch.device]
) -> tuple[Engine, str]:
    """Engines on several devices with an equal share of the rows each; X stays in main memory or on disk."""
    n, count = X.shape[0], len(devices)
    on_cpu = sum(device.type == "cpu" for device in devices)
    threads = max(1, torch.get_num_threads() // max(1, on_cpu))
    parts = []
    for i, device in enumerate(devices):
        rows, centers = X[n * i // count : n * (i + 1) // count], C
        if device.type != "cpu":
            if sparse.issparse(X):
                raise ValueError(f"devices: sparse points are served by 'cpu' only, got {str(device)!r}")
            centers = to_tensor(C).to(device)
            if not isinstance(X, Source):  # blocks of it are sent one after the other, as if it were on disk
                array = rows.detach().numpy() if isinstance(rows, Tensor) else rows
                rows = ArraySource(array, dtype=array.dtype, where="X")
        parts.append(choose(kernel, rows, centers, device, budget // count, wish, threads)[0])

    def whole() -> Engine:
        return choose(kernel, X, C, torch.device("cpu"), budget, None)[0]

    return SplitEngine(parts, whole), f"rows shared by {', '.join(map(str, devices))}"


def as_devices(value: Any) -> list[torch.device]:
    """A list of devices that exist."""
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) == 0:
        raise ValueError(f"devices must be a list of names such as ['cuda:0', 'cuda:1'], got {value!r}")
    try:
        devices = [torch.device(name) for name in value]
    except RuntimeError as error:
        raise ValueError(f"devices must be names that PyTorch knows, got {value!r}: {error}") from error
    for device in devices:
        if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
            raise ValueError(f"devices: there is no {str(device)!r} here, only {torch.cuda.device_count()} of its kind")
    return devices
