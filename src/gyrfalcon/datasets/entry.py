"""What is known of a data set before it is there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One data set.

    Attributes
    ----------
    name : str
    task : str
        "regression" or "classification".
    rows, columns : int
        Of X, test rows included.
    licence : str
        Of the data, as far as it is stated.
    citation : str
        Who made it, or where it is from.
    kind : str
        "bundled" comes with scikit-learn, "remote" is downloaded, "placed" has to be put in place by hand.
    url : str
        Of a remote one.
    sha256 : str
        Of the file at `url`, or of the data.npz that benchmarks were run with; empty if unknown.
    size : int
        Of that file, in bytes.
    split : str
        What `load(split=True)` gives: the "test set" of the source, one of its "10 splits", or a "random" fifth.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> iris = gf.datasets.describe("iris")
    >>> iris.task, iris.rows, iris.kind
    ('classification', 150, 'bundled')
    """

    name: str
    task: str
    rows: int
    columns: int
    licence: str
    citation: str
    kind: str
    url: str = ""
    sha256: str = ""
    size: int = 0
    split: str = "random"
