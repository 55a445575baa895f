"""The labels that a stream has shown so far: in the order of their columns, and sorted as users see them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gyrfalcon.estimators.targets import check_same_kind

Array = np.ndarray[Any, Any]


class Classes:
    """Labels and the columns that they have in the factor, which are never moved when new labels come.

    Examples
    --------
    >>> import numpy as np
    >>> classes = Classes()
    >>> new = classes.with_labels(np.array(["cup", "ball"]))
    >>> new.sorted.tolist(), new.columns.tolist()
    (['ball', 'cup'], [1, 0])
    """

    def __init__(self, labels: Array | None = None) -> None:
        self.labels: Array = np.empty(0, dtype=int) if labels is None else labels  # in the order of the columns
        self.column = {label: column for column, label in enumerate(self.labels.tolist())}
        self.columns = np.argsort(self.labels, kind="stable")  # of the sorted labels
        self.sorted = self.labels[self.columns]

    def __len__(self) -> int:
        return len(self.labels)

    def with_labels(self, labels: Array) -> Classes:
        """These classes and those among some labels that are new, in the order in which they appear."""
        distinct, first = np.unique(labels, return_index=True)
        found = distinct[np.argsort(first)]
        new = [place for place, label in enumerate(found.tolist()) if label not in self.column]
        if not new:
            return self
        check_same_kind(self.sorted, found)
        return Classes(np.concatenate([self.labels, found[new]]) if len(self) else found[new])

    def without(self, label: Any) -> Classes:
        """The same classes but one."""
        return Classes(np.delete(self.labels, self.column[label]))

    def columns_of(self, labels: Array) -> Array:
        """The columns of labels that are all known."""
        return np.fromiter((self.column[label] for label in labels.tolist()), dtype=np.int64, count=len(labels))

    def pack(self) -> dict[str, Any]:
        """As what JSON can hold."""
        labels = [label.item() if isinstance(label, np.generic) else label for label in self.labels.tolist()]
        if any(not isinstance(label, bool | int | float | str) for label in labels):
            raise ValueError("labels that are neither numbers nor text cannot be written to a file")
        return {"labels": labels, "type": "O" if self.labels.dtype == object else self.labels.dtype.str}

    @classmethod
    def unpack(cls, values: dict[str, Any]) -> Classes:
        dtype = np.dtype(str(values["type"]))
        if dtype.kind not in "biufUO":
            raise ValueError(f"labels of type {dtype} cannot be")
        labels = np.array(values["labels"], dtype=dtype)
        if len(np.unique(labels)) != len(labels) or labels.ndim != 1:
            raise ValueError("the classes of the file are not all different")
        return cls(labels)
