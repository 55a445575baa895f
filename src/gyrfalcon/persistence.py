"""Model files: arrays in safetensors, everything else in a JSON header, all of it under one checksum. Never pickle.

A file is read in three steps, and nothing in it is ever executed: the sizes it claims are held against its length, the
checksum is held against its content, and the values are held against what the model needs.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import safetensors.numpy
from scipy import sparse
from torch import Tensor

from gyrfalcon.kernels import Kernel

Array = np.ndarray[Any, Any]
State = tuple[dict[str, Any], dict[str, Array]]

VERSION = 1
LARGEST_HEADER = 64 << 20
# Rooms whose models a file may hold.
MODEL_ROOMS = tuple(
    f"gyrfalcon.{room}"
    for room in (
        *("estimators", "encoding", "features", "tables", "online", "dynamics", "forecasting", "vision", "fields"),
        "pipelines",
    )
)
# Makers of models that are not of this library, by the name in their files; rooms add theirs.
FOREIGN: dict[str, Callable[[Any, dict[str, Array]], Any]] = {}
UNFINISHED = ".part"  # how the name ends of a file that is being written


class ModelFileError(ValueError):
    """A file that is not a whole, unaltered model of this library.

    Examples
    --------
    >>> import pathlib, tempfile, gyrfalcon as gf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "model.safetensors")
    ...     _ = path.write_text("something else")
    ...     try:
    ...         gf.load(path)
    ...     except gf.persistence.ModelFileError:
    ...         print("refused")
    refused
    """


class Savable:
    """Adds `save` and `load`. Subclasses say what their fitted state is, and take it back.

    `_state` returns values that JSON can hold and arrays; `_set_state` receives both after a round trip.
    """

    models: ClassVar[dict[str, type[Savable]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Savable.models[cls.__name__] = cls

    def _state(self) -> State:
        raise NotImplementedError

    def _set_state(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        raise NotImplementedError

    def _describe_parameter(self, name: str, value: Any) -> Any:
        """A constructor argument as JSON; what only matters for fitting again and has no description becomes None."""
        return _parameter(name, value)

    def _read_parameter(self, name: str, value: Any) -> Any:
        """What `_describe_parameter` described."""
        return Kernel.from_dict(value) if isinstance(value, Mapping) else value

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a safetensors file, whole or not at all; `gyrfalcon.load` reads it.

        >>> import numpy as np, gyrfalcon as gf, tempfile, os
        >>> X = np.arange(20.0)[:, None]
        >>> model = gf.KernelRegressor().fit(X, np.sin(X[:, 0]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(os.path.join(folder, "sine.safetensors"))
        ...     again = gf.load(os.path.join(folder, "sine.safetensors"))
        >>> bool((again.predict(X) == model.predict(X)).all())
        True
        """
        write_whole(Path(path), compose(*describe(self)))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model of this class; see `save`."""
        model = load(path)
        if not isinstance(model, cls):
            raise ModelFileError(f"{os.fspath(path)} holds a {type(model).__name__}, not a {cls.__name__}")
        return model


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save` wrote. Anything else raises ModelFileError; nothing in the file is executed.

    Parameters
    ----------
    path : path of a safetensors file

    Examples
    --------
    >>> import gyrfalcon as gf, tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     gf.load(file.name)
    Traceback (most recent call last):
    gyrfalcon.persistence.ModelFileError: ...: the file is too short to be a model
    """
    with open(path, "rb") as file:
        content = file.read()
    try:
        description, arrays = parse(content)
        return build(description, arrays)
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from None
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ModelFileError(f"{os.fspath(path)}: not a model of this version: {error}") from error


def describe(model: Savable) -> State:
    """A fitted model as what JSON can hold and arrays; `build` makes it again."""
    values, arrays = model._state()
    given = model.get_params(deep=False)  # type: ignore[attr-defined]
    parameters = {name: model._describe_parameter(name, value) for name, value in given.items()}
    return {"model": type(model).__name__, "version": VERSION, "parameters": parameters, "fitted": values}, arrays


def compose(description: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """A file's content: what JSON can hold and arrays, under one checksum."""
    text = json.dumps(description, allow_nan=True)
    arrays = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in arrays.items()}
    content = safetensors.numpy.save(arrays, {"gyrfalcon": text, "sha256": _digest(text, arrays)})
    if int.from_bytes(content[:8], "little") > LARGEST_HEADER:
        raise ValueError(f"the file's header is larger than {LARGEST_HEADER >> 20} MB: too many names or labels")
    return content


def parse(content: bytes) -> tuple[Any, dict[str, Array]]:
    """What `compose` composed; ModelFileError for anything else."""
    if len(content) < 10:
        raise ModelFileError("the file is too short to be a model")
    size = int.from_bytes(content[:8], "little")
    if size > LARGEST_HEADER or size > len(content) - 8:
        raise ModelFileError("not a safetensors file, or a truncated one: its header is longer than the file allows")
    try:
        header = json.loads(content[8 : 8 + size])
        metadata = header.pop("__metadata__")
        text, claimed = metadata["gyrfalcon"], metadata["sha256"]
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError):
        raise ModelFileError("not a model file of this library: its header does not say so") from None
    try:
        arrays = safetensors.numpy.load(content)
    except Exception as error:  # SafetensorError, and whatever NumPy says of odd types
        raise ModelFileError(f"not a whole safetensors file: {error}") from None
    if not isinstance(text, str) or _digest(text, arrays) != claimed:
        raise ModelFileError("the file is damaged: its content does not match its checksum")
    return json.loads(text), arrays


def build(description: Any, arrays: dict[str, Array]) -> Any:
    """The model that `describe` described."""
    if description["version"] != VERSION:
        raise ModelFileError(f"the file has version {description['version']!r}, this library reads version {VERSION}")
    name = description["model"]
    for room in () if name in Savable.models or name in FOREIGN else MODEL_ROOMS:
        importlib.import_module(room)
    if name in FOREIGN:
        return FOREIGN[name](description, arrays)
    if name not in Savable.models:
        raise ModelFileError(f"unknown model {name!r}")
    model = Savable.models[name]()
    known = model.get_params(deep=False)  # type: ignore[attr-defined]
    parameters = {
        key: model._read_parameter(key, value) for key, value in description["parameters"].items() if key in known
    }
    model.set_params(**parameters)  # type: ignore[attr-defined]
    model._set_state(description["fitted"], arrays)
    return model


def _digest(text: str, arrays: Mapping[str, Array]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
        digest.update(array.data if array.size else b"")
    return digest.hexdigest()


def _parameter(name: str, value: Any) -> Any:
    if name == "checkpoint":
        return None  # a folder of the machine that fitted
    if isinstance(value, Kernel):
        return value.to_dict()
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if name == "length_scale":
        return np.asarray(value).tolist()
    if name == "categorical":
        return [str(column) for column in value]
    if name == "device":
        return str(value)
    if callable(value) and name == "kernel":
        raise ValueError("a kernel that is a Python function cannot be saved: use one of gyrfalcon.kernels")
    return "uniform" if name == "centers" else None


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under another name in the same folder, and move it into place when the disk has it: whoever looks
    finds the old file or the new one, whatever happens on the way.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=UNFINISHED)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def pack_points(points: Any, name: str) -> dict[str, Array]:
    """Points of any kind as arrays."""
    if isinstance(points, sparse.csr_array):
        parts = {"data": points.data, "indices": points.indices.astype(np.int64), "indptr": points.indptr}
        packed = {f"{name}.{part}": np.asarray(array) for part, array in parts.items()}
        packed[f"{name}.indptr"] = packed[f"{name}.indptr"].astype(np.int64)
        return packed | {f"{name}.shape": np.array(points.shape, dtype=np.int64)}
    return {name: points.cpu().numpy() if isinstance(points, Tensor) else np.asarray(points)}


def unpack_points(arrays: Mapping[str, Array], name: str) -> Any:
    """What `pack_points` packed; tensors come back as arrays."""
    if name in arrays:
        return arrays[name]
    rows, columns = (int(number) for number in arrays[f"{name}.shape"])
    parts = tuple(arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
    points = sparse.csr_array(parts, shape=(rows, columns))
    points.check_format(full_check=True)
    return points
