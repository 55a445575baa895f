"""`gyrfalcon update`: let a model learn from more rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import gyrfalcon as gf

from .options import MODEL_ENDINGS, Data, Delimiter, Json, Model
from .predict import matrix
from .session import check_output, listing, tell

EXAMPLES = """
Examples:

gyrfalcon update homes.safetensors sold_homes.csv

gyrfalcon update robot.safetensors frames.parquet --target torque --out robot2.safetensors
"""


def command(
    model: Model,
    data: Data,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The model file to write; the same file if not given.")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="The column to learn, if the model does not know its name.")
    ] = None,
    delimiter: Delimiter = None,
    json: Json = False,
) -> None:
    """Learn from more rows, exactly: the model becomes that of all rows so far, with the same kernel and centers.

    For models that `fit --updatable` or Python wrote: updatable estimators and the recursive models of
    gyrfalcon.online. The rows are predicted before they are learned, and the scores are shown. The file is replaced
    when it is complete.
    """
    import numpy as np

    from gyrfalcon.tables.model import model_scores

    check_output(out, MODEL_ENDINGS)
    loaded = gf.load(model)
    estimator, names, task, known = _parts(loaded)
    if known is not None and target not in (None, known):
        raise ValueError(f"--target {target!r} is another column than {known!r}, which the model predicts")
    column = known or target
    if column is None:
        raise ValueError(f"{model} does not say which column it predicts: name it with --target")
    if not _recursive(estimator) and not estimator.updatable:
        raise ValueError(f"{model} keeps nothing that rows could be added to: fit it again with --updatable")
    encoder = None
    if isinstance(loaded, gf.KernelRegressor | gf.KernelClassifier):  # which reads the table here, as others do
        encoder, estimator = loaded.encoder_, loaded.behind_encoder()
    X, y, learn = _rows(loaded if encoder is None else estimator, data, names, task, column, delimiter, encoder)
    classes = getattr(estimator, "classes_", None)
    scores = model_scores(estimator, X, y) if classes is None or np.isin(y, classes).all() else None
    learn(X, y)
    if encoder is not None:
        loaded = estimator.before_encoder(loaded)
    loaded.save(model if out is None else out)
    facts: dict[str, Any] = {"command": "update", "model": model, "data": data, "target": column, "task": task}
    facts |= {"rows": len(y), "rows_so_far": _rows_so_far(estimator), "before": scores}
    facts |= {"new_classes": [] if classes is None else np.setdiff1d(estimator.classes_, classes).tolist()}
    facts |= {"out": model if out is None else out}
    said: list[Any] = [f"{facts['rows']:,} rows of {column} learned, {facts['rows_so_far']:,} in all"]
    if facts["new_classes"]:
        said.append(f"new classes: {', '.join(map(str, facts['new_classes']))}")
    said += [] if scores is None else [listing("predicted before they were learned", scores)]
    tell(facts, json, lambda console: console.print(*said, f"written: {facts['out']}", sep="\n"))


def _parts(model: Any) -> tuple[Any, list[str] | None, str, str | None]:
    """The estimator, feature names, task and target of whatever a file holds that can learn."""
    from .summary import parts

    if not _recursive(model):
        return parts(model)
    names = getattr(model, "feature_names_in_", None)
    task = "classification" if isinstance(model, gf.online.RecursiveClassifier) else "regression"
    return model, None if names is None else names.tolist(), task, model.target_name_


def _rows(
    model: Any, data: Path, names: list[str] | None, task: str, target: str, delimiter: str | None, encoder: Any
) -> tuple[Any, Any, Any]:
    """Features and targets of a table, and what learns from them."""
    import numpy as np

    from gyrfalcon.tables.model import rows_of
    from gyrfalcon.tables.targets import read_target, values_of

    from .training import is_large

    if isinstance(model, gf.TableModel):
        table = model.read_table(data, delimiter=delimiter)
        rows, y = model.truth(table)
        return model.features(rows_of(table, rows)), y, model.estimator_.partial_fit
    if encoder is None and is_large(data):
        opened = gf.data.open(data, target=target, features=names)
        return opened.X, opened.y, model.partial_fit
    table = gf.tables.read_table(data, delimiter=delimiter, features=names)
    column, _ = read_target(table, target)
    features = [name for name in table if name != target] if names is None else names
    known, dtype = rows_of(table, np.flatnonzero(~column.missing)), "float64" if _recursive(model) else "float32"
    X = matrix(known, features, dtype, encoder=encoder)
    return X, values_of(column, task), model.partial_fit


def _recursive(model: Any) -> bool:
    return isinstance(model, gf.online.RecursiveRegressor | gf.online.RecursiveClassifier)


def _rows_so_far(estimator: Any) -> int:
    return int(estimator.n_seen_ if _recursive(estimator) else estimator.moments_.count)
