"""Classes of pixels from scribbles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from sklearn.exceptions import NotFittedError
from torch.nn import functional

from gyrfalcon.matrix.predictor import Predictor
from gyrfalcon.persistence import State

from . import files
from .additive import AdditiveClassifier, LabeledRows
from .extractors import check_image
from .features import FeatureMap, Features
from .keys import candidate_keys, frame_digest, smallest
from .networks import resolve

Array = np.ndarray[Any, Any]

LARGEST_LABEL = 1000


class PixelClassifier(files.TaughtModel):
    """Classes of all pixels from a few that are marked, with scikit-learn's manners.

    A Gaussian kernel machine with fixed centers on frozen features, fitted by least squares, one against the rest. It
    learns while images arrive: `observe` adds an image's part to sums, `train` solves an m × m system, and `forget`
    takes an image out again, to the last bit.

    Parameters
    ----------
    net : Extractor or str
        A callable that returns maps of features; a name stands for `extractor(name)`, which is loaded when needed.
    n_centers : int
    length_scale : float
        Of the kernel, for features whose length is about 20.
    penalty : float
    cells_per_image : int
        How many marked cells of an image are learned from, at most. A cell is a square of 8 pixels of the image as the
        network has seen it, and is of each class as much as the share of its marked pixels.
    random_state : int

    Attributes
    ----------
    classes_ : list
        Names, or numbers from 1, in the order in which they appeared.
    n_rows_ : int
        How many cells were learned from.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon import vision
    >>> def colors(image):  # any callable is an extractor
    ...     return {4: image[::4, ::4].transpose(2, 0, 1) / 255.0 + 0.01}
    >>> image = np.zeros((64, 64, 3), dtype=np.uint8)
    >>> image[:, 32:, 0] = 255
    >>> marks = np.zeros((64, 64), dtype=np.int64)  # 0: not marked
    >>> marks[10:20, 4:12], marks[10:20, 40:48] = 1, 2
    >>> model = vision.PixelClassifier(colors).fit([image], [marks])
    >>> bool((model.predict(image) == np.where(image[:, :, 0] > 0, 2, 1)).mean() > 0.95)
    True
    """

    classes_: list[Any]
    _model: AdditiveClassifier
    _next: int

    def __init__(
        self,
        net: Any = "tiny-vit",
        n_centers: int = 1000,
        length_scale: float = 10.0,
        penalty: float = 1e-6,
        cells_per_image: int = 2000,
        random_state: int = 0,
    ):
        self.net = net
        self.n_centers = n_centers
        self.length_scale = length_scale
        self.penalty = penalty
        self.cells_per_image = cells_per_image
        self.random_state = random_state

    # Learning.

    def fit(self, images: Sequence[Any], scribbles: Sequence[Any]) -> Self:
        """Learn from images, from the beginning, with centers from all of them.

        Parameters
        ----------
        images : list of arrays of uint8 of shape (height, width, 3)
        scribbles : list of arrays of int of shape (height, width), or of mappings of names to masks
            The class of each pixel from 1, and 0 where it is not marked; or a bool mask for each class.
        """
        if len(images) != len(scribbles) or len(images) == 0:
            raise ValueError(
                f"images and scribbles must be as many, and at least one; got {len(images)} and {len(scribbles)}"
            )
        fresh = type(self)(**self.get_params(deep=False))
        fresh._begin()
        rows = {}
        for image, marks in zip(images, scribbles, strict=True):
            rows[fresh._next], fresh.classes_ = fresh._rows(image, marks)
            fresh._next += 1
        if not any(len(found.keys) for found in rows.values()):
            raise ValueError("scribbles: no pixel is marked")
        fresh._model.add_all(rows)
        self.__dict__.update(fresh.train().__dict__)  # only now: whatever is refused leaves the model as it was
        return self

    def observe(self, image: Any, scribbles: Any) -> int:
        """Learn from one more image, and return a number by which `forget` can take it out again; see `fit`.

        `predict` changes with the next `train`.
        """
        self._ready()
        rows, names = self._rows(image, scribbles)
        if len(rows.keys) == 0:
            raise ValueError("scribbles: no pixel is marked")
        number, self.classes_ = self._next, names
        self._model.add(number, rows)
        self._next += 1
        return number

    def train(self) -> Self:
        """Solve for the coefficients; the time does not depend on the number of images."""
        if not hasattr(self, "_model") or self._model.count == 0:
            raise NotFittedError("train needs marked pixels: call observe first")
        self._check_parameters()
        self._model.grow(len(self.classes_))
        self._predictor: Predictor = self._model.solve()
        self.n_rows_ = self._model.count
        self._trained = len(self.classes_)
        return self

    def forget(self, frame_id: int) -> None:
        """Take an image out, as if it had never been observed; the centers stay. Of the last 64 images."""
        if frame_id not in self._known():
            raise KeyError(f"frame_id: {frame_id!r} is not one of the last images that were observed")
        self._model.remove(frame_id)

    def add_class(self, name: Any) -> None:
        """Have one more class, of which no pixel was marked yet."""
        self._ready()
        if name in self.classes_:
            raise ValueError(f"name: there is a class {name!r} already")
        self.classes_.append(name)

    def _known(self) -> dict[int, LabeledRows]:
        return self._model.frames if hasattr(self, "_model") else {}

    def _ready(self) -> None:
        """Begin, if nothing was marked yet; if something was, the parameters must be the same as then."""
        if hasattr(self, "_model"):
            self._check_parameters()
        else:
            self._begin()

    def _begin(self) -> None:
        check_count("n_centers", self.n_centers)
        check_count("cells_per_image", self.cells_per_image)
        check_count("random_state", self.random_state, 0)
        for name in ("length_scale", "penalty"):
            check_positive(name, getattr(self, name))
        self.classes_ = []
        self._model = AdditiveClassifier(self.n_centers, self.length_scale, self.penalty)
        self._features = Features(resolve(self.net))
        self._next = 0
        self._fix_parameters()

    def _rows(self, image: Any, scribbles: Any) -> tuple[LabeledRows, list[Any]]:
        """The marked cells of an image, and the classes with those that are new."""
        pixels = check_image(image)
        marks, names = self._numbers(scribbles, (pixels.shape[0], pixels.shape[1]))
        found = self._features(pixels)
        shares = cell_shares(marks, found.grid, max(1, len(names)))
        marked = np.flatnonzero(shares.any(1))
        digest = frame_digest(pixels.tobytes(), marks.tobytes())
        keys = candidate_keys(self.random_state, digest, len(shares), "cells")[marked]
        chosen = np.sort(smallest(keys, self.cells_per_image))
        kept = marked[chosen]
        return LabeledRows(found.rows().numpy()[kept], shares[kept], keys[chosen]), names

    def _numbers(self, scribbles: Any, shape: tuple[int, int]) -> tuple[Array, list[Any]]:
        """Marks as numbers from 1, and 0 where there are none; and the classes they count, new ones at the end."""
        layers: Iterable[tuple[Any, Any]]
        if isinstance(scribbles, Mapping):
            layers = scribbles.items()
        else:
            marks = np.asarray(scribbles)
            if marks.shape != shape or marks.dtype.kind not in "iu":
                raise ValueError(
                    f"scribbles must be integers of shape {shape}, or masks by name, got {marks.dtype} of {marks.shape}"
                )
            if marks.min(initial=0) < 0 or marks.max(initial=0) > LARGEST_LABEL:
                raise ValueError(f"scribbles must be 0 or a class from 1 to {LARGEST_LABEL}")
            layers = ((int(label), marks == label) for label in np.unique(marks) if label)
        numbers, names = np.zeros(shape, dtype=np.int64), list(self.classes_)
        for name, mask in layers:
            inside = np.asarray(mask)
            if inside.shape != shape or inside.dtype != bool:
                raise ValueError(f"scribbles: the mask of {name!r} must be bool of shape {shape}")
            if name not in names:
                names.append(name)
            numbers[inside] = names.index(name) + 1
        return numbers, names

    # Answers.

    def decision_function(self, image: Any) -> Array:
        """Scores of shape (height, width, classes), near 1 where a class is and -1 where it is not."""
        if not hasattr(self, "_predictor"):
            raise NotFittedError("this PixelClassifier is not trained yet: call fit, or observe and train")
        found = self._features(image)
        return upsampled(self._predictor(found.rows().numpy()), found)

    def predict_proba(self, image: Any) -> Array:
        """Probabilities of shape (height, width, classes): (1 + score)/2 between 0 and 1, scaled to sum to one."""
        scores = self.decision_function(image)
        shares = np.clip((1 + scores) / 2, 1e-6, 1)
        return np.asarray(shares / shares.sum(2, keepdims=True))

    def predict(self, image: Any) -> Array:
        """The class of each pixel, of shape (height, width)."""
        best = self.decision_function(image).argmax(2)
        names = self.classes_[: self._trained]
        kinds = {type(name) for name in names}
        named: Array = np.asarray(names, dtype=None if kinds <= {int} else object)[best]
        return named

    # Files.

    def _state(self) -> State:
        if not hasattr(self, "_predictor"):
            raise NotFittedError("this PixelClassifier is not trained yet: call fit, or observe and train")
        facts, arrays = files.pack_additive(self._model, "cells")
        return (
            {"classes": self.classes_, "trained": self._trained, "next": self._next, "cells": facts},
            {**arrays, **files.pack_features(self._features), "beta": self._predictor.coefficients}
            | {"intercept": np.atleast_1d(self._predictor.intercept)},
        )

    def _set_state(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        self._begin()
        self.classes_ = files.check_names(values["classes"])
        self._trained, self._next = int(values["trained"]), int(values["next"])
        self._features = files.unpack_features(self._features, arrays)
        files.unpack_additive(self._model, values["cells"], arrays, "cells")
        if not 1 <= self._trained <= len(self.classes_) or self._model.centers is None:
            raise ValueError("classes do not fit the coefficients")
        beta = files.array(arrays, "beta", (len(self._model.centers), self._trained))
        intercept = files.array(arrays, "intercept", (self._trained,))
        self._predictor = Predictor(self._model.kernel, self._model.centers.astype(np.float32), beta, intercept)
        self.n_rows_ = self._model.count


def check_count(name: str, value: Any, least: int = 1) -> None:
    """Refuse a setting that is not a whole number, or too small a one."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")


def check_positive(name: str, value: Any) -> None:
    """Refuse a setting that is not a positive number."""
    if not isinstance(value, int | float | np.number) or not 0 < value < np.inf:
        raise ValueError(f"{name} must be a positive number, got {value!r}")


def cell_shares(marks: Array, grid: tuple[int, int], classes: int) -> Array:
    """For each cell the shares that classes have in its marked pixels, or zeros if none is marked."""
    height, width = marks.shape
    rows = np.minimum((np.arange(height) + 0.5) * grid[0] / height, grid[0] - 1).astype(np.int64)
    columns = np.minimum((np.arange(width) + 0.5) * grid[1] / width, grid[1] - 1).astype(np.int64)
    places = np.broadcast_to(rows[:, None] * grid[1] + columns, marks.shape)
    marked = marks > 0
    votes = np.bincount(places[marked] * classes + marks[marked] - 1, minlength=grid[0] * grid[1] * classes)
    votes = votes.reshape(grid[0] * grid[1], classes)
    return np.asarray(votes / np.maximum(1, votes.sum(1, keepdims=True)), dtype=np.float32)


def upsampled(scores: Array, found: FeatureMap) -> Array:
    """Scores of cells as scores of pixels."""
    cells = torch.from_numpy(scores.astype(np.float32)).T.reshape(1, -1, *found.grid)
    pixels = functional.interpolate(cells, found.shape, mode="bilinear", align_corners=False)[0]
    return np.asarray(pixels.permute(1, 2, 0).numpy())
