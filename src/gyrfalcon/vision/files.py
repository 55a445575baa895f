"""What the models of this room write to files, and how it is checked when it is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator

from gyrfalcon.moments import ExactMoments
from gyrfalcon.persistence import Savable

from .additive import AdditiveClassifier, LabeledRows
from .features import Features
from .networks import MissingNetwork, name_of, resolve

Array = np.ndarray[Any, Any]


class TaughtModel(Savable, BaseEstimator):  # type: ignore[misc]
    """A model on an extractor that learns frame by frame: its parameters are fixed by the first frame.

    Those that only `predict` looks at are not; their names are in `_free`.
    """

    net: Any
    _free: tuple[str, ...] = ()
    _features: Features
    _fixed: dict[str, Any]

    def _fix_parameters(self) -> None:
        """Remember the parameters with which teaching begins."""
        self._fixed = self.get_params(deep=False)

    def _check_parameters(self) -> None:
        """Refuse to go on with other parameters than those with which teaching began."""
        for name, value in self.get_params(deep=False).items():
            began = self._fixed[name]
            if name not in self._free and value is not began and (name == "net" or value != began):
                raise ValueError(
                    f"{name} was {began!r} when the first frame was observed and is {value!r} now: set it back, or "
                    "teach a new model"
                )

    def _describe_parameter(self, name: str, value: Any) -> Any:
        """A network by name; a callable of the user's cannot be held by a file."""
        return name_of(value) if name == "net" else super()._describe_parameter(name, value)

    def _read_parameter(self, name: str, value: Any) -> Any:
        if name != "net":
            return super()._read_parameter(name, value)
        if value is None:
            return MissingNetwork()
        if not isinstance(value, str):
            raise ValueError(f"net must be a name, got {value!r}")
        resolve(value)
        return value

    @classmethod
    def load(cls, path: str | os.PathLike[str], net: Any = None) -> Self:
        """Read what `save` wrote.

        Parameters
        ----------
        path : path of a safetensors file
        net : Extractor, optional
            The one that the model was taught with, if it was not made by `extractor`.
        """
        model = super().load(path)
        if net is not None:
            model.net, model._features.net = net, resolve(net)
            model._fix_parameters()
        return model


def check_names(names: Any) -> list[Any]:
    """Names of classes: text or whole numbers, each once."""
    if not isinstance(names, list) or not all(isinstance(name, str | int) for name in names):
        raise ValueError("classes must be a list of text or whole numbers")
    if len(set(names)) != len(names):
        raise ValueError("classes must be distinct")
    return names


def array(arrays: Mapping[str, Array], name: str, shape: tuple[int | None, ...], kind: str = "f") -> Array:
    """An array of a file with the shape and kind that it must have; floating-point numbers must be finite."""
    found = arrays[name]
    fits = len(found.shape) == len(shape) and all(
        wanted in (None, side) for wanted, side in zip(shape, found.shape, strict=True)
    )
    if not fits or found.dtype.kind != kind:
        raise ValueError(f"{name} has type {found.dtype} and shape {found.shape}, not kind {kind!r} and {shape}")
    if kind == "f" and not np.isfinite(found).all():
        raise ValueError(f"{name} holds values that are not finite")
    return found


def pack_features(features: Features) -> dict[str, Array]:
    """The directions to which features are reduced, by stride."""
    directions = features.directions or {}
    return {f"directions.{stride}": matrix.numpy() for stride, matrix in directions.items()}


def unpack_features(features: Features, arrays: Mapping[str, Array]) -> Features:
    """The same features, with the directions of a file."""
    names = [name for name in arrays if name.startswith("directions.")]
    directions = {int(name.split(".")[1]): array(arrays, name, (None, None)) for name in names}
    if len({matrix.shape[0] for matrix in directions.values()}) > 1 or any(stride < 1 for stride in directions):
        raise ValueError("directions do not fit together")
    tensors = {stride: torch.from_numpy(directions[stride].astype(np.float32)) for stride in sorted(directions)}
    features.directions = tensors or None
    return features


def pack_additive(model: AdditiveClassifier, prefix: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """Sums, centers and the rows that may be forgotten."""
    facts: dict[str, Any] = {"outputs": model.outputs, "arrived": model.arrived, "frames": list(model.frames)}
    arrays: dict[str, Array] = {}
    if model.sums is not None and model.centers is not None:
        facts["sums"], sums = model.sums.pack()
        arrays |= {f"{prefix}.{name}": values for name, values in sums.items()}
        arrays[f"{prefix}.centers"] = model.centers
    for number, rows in model.frames.items():
        for name in ("X", "shares", "keys"):
            arrays[f"{prefix}.{number}.{name}"] = getattr(rows, name)
    return facts, arrays


def unpack_additive(
    model: AdditiveClassifier, facts: Mapping[str, Any], arrays: Mapping[str, Array], prefix: str
) -> None:
    """Have a model hold what `pack_additive` packed."""
    model.outputs, model.arrived = int(facts["outputs"]), int(facts["arrived"])
    width = None
    if "sums" in facts:
        names = ("second", "features", "cross", "targets", "squares", "T")
        model.sums = ExactMoments.unpack(facts["sums"], {name: arrays[f"{prefix}.{name}"] for name in names})
        model.centers = array(arrays, f"{prefix}.centers", (model.sums.whitening.size, None))
        width = model.centers.shape[1]
        if len(model.sums.targets) != model.outputs:
            raise ValueError("the sums do not fit the number of classes")
    for number in facts["frames"]:
        X = array(arrays, f"{prefix}.{number}.X", (None, width))
        shares = array(arrays, f"{prefix}.{number}.shares", (len(X), None))
        keys = array(arrays, f"{prefix}.{number}.keys", (len(X),), "u")
        if not 1 <= shares.shape[1] <= model.outputs or shares.min(initial=0) < 0 or shares.max(initial=0) > 1:
            raise ValueError("shares do not fit the classes")
        model.frames[int(number)] = LabeledRows(X, shares, keys)
