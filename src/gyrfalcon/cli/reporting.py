"""Write reports about a model on test rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gyrfalcon.data import Source
from gyrfalcon.tables import TableModel

from .summary import parts

Array = np.ndarray[Any, Any]

MOST_ROWS = 100_000  # of a stream that a report looks at


def report_of(
    path: Path,
    model: Any,
    X: Any,
    y: Array,
    *,
    train: tuple[Any, Array] | None = None,
    title: str,
    reproduce: str,
    encoder: Any = None,
) -> None:
    """Write the report of an estimator on features and targets; `encoder` has made the features, if there is one."""
    from gyrfalcon.report import write_report

    estimator, names, _, _ = parts(model)
    table: dict[str, Any] = {} if encoder is None else {"preprocessor": encoder}
    names = names if encoder is None else encoder.get_feature_names_out().tolist()
    if isinstance(model, TableModel):
        table = {"preprocessor": model.preprocessor_, "threshold": model.threshold}
        table["positive"] = model.positive
    X, y = _in_memory(X, y)
    X_train, y_train = (None, None) if train is None else _in_memory(*train)
    write_report(
        path,
        estimator,
        X,
        y,
        X_train=X_train,
        y_train=y_train,
        feature_names=names,
        **table,
        title=title,
        reproduce=reproduce,
    )


def _in_memory(X: Any, y: Array) -> tuple[Any, Array]:
    if not isinstance(X, Source):
        return X, y
    rows = min(len(X), MOST_ROWS)
    return X.rows(0, rows), y[:rows]
