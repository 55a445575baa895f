"""What a fit is made of, as digests: two fits with the same ones have the same result."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse
from torch import Tensor

from gyrfalcon.data.source import Source
from gyrfalcon.version import __version__

IRRELEVANT = ("checkpoint", "verbose")
_BLOCK = 1 << 20  # entries looked at together
_BLOCKS = 64  # that are looked at entry by entry; of the others the sums


def fingerprint(estimator: Any, data: Mapping[str, Any]) -> dict[str, str]:
    """A digest of each parameter and each piece of data, by name.

    Functions count by their names alone. Of large data a part of the rows is looked at, and the sums of the others. A
    random state that is not a number has no digest: what was drawn from it is kept instead.
    """
    parts = {"the version of gyrfalcon": __version__, "the estimator": type(estimator).__name__}
    for name, value in estimator.get_params(deep=False).items():
        if name not in IRRELEVANT:
            drawn = name == "random_state" and not isinstance(value, numbers.Integral)
            parts[name] = "drawn" if drawn else digest(value)
    return parts | {name: digest(value) for name, value in data.items()}


def digest(value: Any) -> str:
    """Of numbers, names, arrays, kernels, settings and what is made of them.

    >>> digest([1.0, "a"]) == digest([1.0, "a"]), digest(1.0) == digest(2.0)
    (True, False)
    """
    found = hashlib.sha256()
    _add(found, value)
    return found.hexdigest()


def _add(found: Any, value: Any) -> None:
    kind = type(value)
    found.update(f"{kind.__module__}.{kind.__qualname__}(".encode())
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic):
        found.update(repr(value).encode())
    elif isinstance(value, np.ndarray | Tensor | Source):
        _add_rows(found, value)
    elif sparse.issparse(value):
        rows = value.tocsr()
        for part in (np.array(rows.shape), rows.data, rows.indices, rows.indptr):
            _add_rows(found, part)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            _add(found, getattr(value, field.name))
    elif isinstance(value, Mapping):
        for item in value.items():
            _add(found, item)
    elif isinstance(value, list | tuple | set | frozenset):
        for part in sorted(value, key=repr) if isinstance(value, set | frozenset) else value:
            _add(found, part)
    elif isinstance(value, functools.partial):
        _add(found, (value.func, value.args, value.keywords))
    elif hasattr(value, "__qualname__"):
        found.update(f"{value.__module__}.{value.__qualname__}".encode())
    elif hasattr(value, "__dict__"):
        _add(found, vars(value))
    else:
        found.update(repr(value).encode())
    found.update(b")")


def _add_rows(found: Any, rows: Any) -> None:
    found.update(f"{tuple(rows.shape)} {rows.dtype}".encode())
    if rows.dtype == object:
        found.update(repr(rows.tolist()).encode())
        return
    if len(rows.shape) == 0:
        found.update(repr(rows.tolist()).encode())
        return
    count = len(rows)
    step = max(1, _BLOCK // max(1, int(np.prod(rows.shape[1:]))))
    every = -(-count // (step * _BLOCKS))
    for place, start in enumerate(range(0, count, step)):
        whole = place % every == 0
        if isinstance(rows, Source):
            if whole:  # reading all of it would cost as much as a product
                found.update(np.ascontiguousarray(rows.rows(start, min(count, start + step))))
            continue
        block = rows[start : start + step]
        block = block.detach().cpu().numpy() if isinstance(block, Tensor) else block
        found.update(np.ascontiguousarray(block if whole else block.sum(0, dtype=np.float64)).tobytes())
