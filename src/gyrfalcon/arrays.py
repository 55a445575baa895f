"""Arrays, tensors and CSR matrices: what is accepted, checked once and named in every complaint, and conversions."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

Array: TypeAlias = np.ndarray[Any, Any]
Dense: TypeAlias = Array | Tensor
AnyPoints: TypeAlias = Dense | sparse.csr_array

_CHUNK = 1 << 20  # entries looked at together when checking that all are finite
_FLOATS = {"float32": torch.float32, "float64": torch.float64}


def as_matrix(value: Any, name: str) -> AnyPoints:
    """A finite float32 or float64 matrix: an array, a tensor or CSR; nothing is copied unless it must be.

    Integers and booleans become float64. Anything with `__array__` (lists, data frames) is read as an array.
    """
    points = _as_matrix(value, name)
    if points.ndim != 2:
        raise ValueError(f"{name} must have two dimensions (rows are points), got shape {tuple(points.shape)}")
    if isinstance(points, sparse.csr_array):
        if not np.isfinite(points.data).all():
            raise ValueError(f"{name} contains NaN or infinity: drop or impute those entries first")
    else:
        _check_finite(points, name)
    return points


def as_dense(value: Any, name: str) -> Dense:
    """The same for those who have no use for sparse points."""
    points = as_matrix(value, name)
    if isinstance(points, sparse.csr_array):
        raise TypeError(f"{name} must be dense here: use KernelMatrix, or convert it with .toarray()")
    return points


def _as_matrix(value: Any, name: str) -> AnyPoints:
    if isinstance(value, Tensor):
        if value.layout is torch.sparse_csr:
            parts = (value.values(), value.col_indices(), value.crow_indices())
            value = sparse.csr_array(tuple(part.detach().cpu().numpy() for part in parts), shape=tuple(value.shape))
        elif value.layout is not torch.strided:
            raise TypeError(f"{name} must be a dense or CSR tensor, got layout {value.layout}: use .to_sparse_csr()")
        else:
            return _float_tensor(value, name)
    if sparse.issparse(value):
        if value.dtype.name not in _FLOATS and value.dtype.kind not in "biu":
            raise TypeError(f"{name} must hold float32 or float64, got {value.dtype}")
        csr = sparse.csr_array(value)
        if not csr.has_canonical_format:
            csr = csr.copy()  # the caller's own is left as it is
            csr.sum_duplicates()
        return csr if value.dtype.name in _FLOATS else csr.astype(np.float64)
    return _float_array(value, name)


def _float_tensor(value: Tensor, name: str) -> Tensor:
    if value.device.type == "meta":
        raise ValueError(f"{name} is on the meta device and holds no numbers")
    if value.dtype in (torch.float32, torch.float64):
        return value.resolve_neg()
    if value.dtype.is_complex or value.dtype.is_floating_point:
        raise TypeError(
            f"{name} must hold float32 or float64, got {value.dtype}: convert it with .float() or .double()"
        )
    return value.double()


def _float_array(value: Any, name: str) -> np.ndarray[Any, Any]:
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} cannot be read as an array: {error}") from error
    if array.dtype.kind in "biu":
        return array.astype(np.float64)
    if array.dtype.name not in _FLOATS:
        raise TypeError(f"{name} must hold float32 or float64, got {array.dtype}: convert it with .astype")
    if not array.dtype.isnative:
        return array.astype(array.dtype.newbyteorder("="))
    if any(stride % array.itemsize for stride in array.strides):  # a field of a structured array
        return array.copy()
    return array


def _check_finite(points: Dense, name: str) -> None:
    step = max(1, _CHUNK // max(1, points.shape[1]))
    for start in range(0, len(points), step):
        part = points[start : start + step]
        if isinstance(part, Tensor) and part.device.type == "cpu":
            part = part.detach().numpy()  # few numbers at a time: torch would wake its threads for them
        finite = torch.isfinite(part).all() if isinstance(part, Tensor) else np.isfinite(part).all()
        if not finite:
            raise ValueError(f"{name} contains NaN or infinity: drop or impute those entries first")


def torch_dtype(points: Any) -> torch.dtype:
    return points.dtype if isinstance(points, Tensor) else _FLOATS[points.dtype.name]


def device_of(points: Any) -> torch.device:
    return points.device if isinstance(points, Tensor) else torch.device("cpu")


def as_numpy(values: Any, dtype: Any = None) -> Array:
    """The same numbers as an array in main memory, without their history; of another type if one is given."""
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    return array if dtype is None else array.astype(dtype, copy=False)


def in_double(points: Any) -> Any:
    """Points of any kind in float64."""
    return points.double() if isinstance(points, Tensor) else points.astype(np.float64, copy=False)


def to_tensor(array: Dense) -> Tensor:
    """The same memory as a tensor, or a copy where torch cannot represent it (negative strides, read-only)."""
    if isinstance(array, Tensor):
        return array
    if not array.flags.writeable or min(array.strides, default=0) < 0:
        array = array.copy()
    return torch.from_numpy(array)


def as_kind(points: Any, like: Any) -> Any:
    """The points as the kind, type and device of others: an array, a tensor or CSR."""
    if isinstance(like, Tensor):
        dense = points.toarray() if sparse.issparse(points) else points
        return to_tensor(dense).detach().to(like.device, like.dtype)
    points = points if sparse.issparse(points) else as_numpy(points)
    points = points.astype(like.dtype, copy=False)
    if sparse.issparse(like):
        return sparse.csr_array(points)
    return points.toarray() if sparse.issparse(points) else points


def as_vectors(value: Any, name: str, rows: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """`rows` numbers, or that many rows of them, as a matrix with one column per right-hand side.

    Lists and whole numbers take the points' type; floating-point arrays must have it already.
    """
    vectors = value if isinstance(value, Tensor) else to_tensor(_float_array(value, name))
    if vectors.layout is not torch.strided:
        raise TypeError(f"{name} must be dense")
    floating = value.is_floating_point() or value.is_complex() if isinstance(value, Tensor) else _is_float_array(value)
    if not floating:
        vectors = vectors.to(dtype)
    if vectors.ndim not in (1, 2) or len(vectors) != rows:
        raise ValueError(f"{name} must have {rows} rows and one or two dimensions, got shape {tuple(vectors.shape)}")
    if vectors.device != device:
        raise ValueError(f"{name} is on {vectors.device} but the points are on {device}: move one of them")
    if vectors.dtype != dtype:
        raise TypeError(f"{name} holds {vectors.dtype} but the points hold {dtype}: convert one of them")
    columns = vectors if vectors.ndim == 2 else vectors[:, None]
    _check_finite(columns.detach(), name)
    return columns


def _is_float_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"
