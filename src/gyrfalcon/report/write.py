"""One HTML file about one model."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gyrfalcon.data.atomic import replacing
from gyrfalcon.tables import TablePreprocessor

from . import classification, page, regression
from .data import data
from .evidence import BAND, Evidence, gather
from .features import features
from .learning import learning
from .metrics import measure
from .multilabel import has_labels, labels_page
from .origin import reproduce as reproduction
from .origin import times
from .page import Section
from .text import share

# In the order of the page; what does not apply returns None.
SECTIONS: tuple[Callable[[Evidence], Section | None], ...] = (
    regression.predictions,
    classification.predictions,
    regression.uncertainty,
    features,
    learning,
    data,
    times,
)


def write_report(
    path: str | os.PathLike[str],
    model: Any,
    X_test: Any,
    y_test: Any,
    *,
    X_train: Any = None,
    y_train: Any = None,
    feature_names: Any = None,
    columns: Any = None,
    preprocessor: TablePreprocessor | None = None,
    threshold: float | None = None,
    positive: Any = None,
    title: str | None = None,
    reproduce: str | None = None,
) -> Path:
    """Write a report on a fitted model: one HTML file that needs no other, and no network.

    Metrics with 95 % intervals (bootstrap over the test rows), predictions, uncertainty, features, learning curve,
    tuning, data, times, and how to reproduce it. Light and dark, for screens of any size. Of a classifier with several
    labels per row, the page tells how well each label is predicted.

    Parameters
    ----------
    path : path
        The file appears when it is complete.
    model : a fitted estimator of this library, or a pipeline that ends in one
    X_test, y_test : what `predict` takes, in memory, and the true targets or labels
        Rows that the model was not fitted to.
    X_train, y_train : optional
        The rows it was fitted to: they add a learning curve, for which the model is fitted again, on at most 4,000
        rows and for a quarter of a minute or so.
    feature_names : sequence of str, optional
        Those of the fit by default.
    columns : sequence of str, optional
        Of each feature the column of the table that it was made from: features of one column, such as the codes of its
        categories, count as one where the page says how much each matters. A column each by default, or those of the
        `TablePreprocessor` of a pipeline.
    preprocessor : TablePreprocessor, optional
        What made the features of a table: with it, the page shows the columns, dates as dates and categories by name.
        That of a pipeline by default.
    threshold : float, optional
        Of two classes, the positive one is predicted where its probability is at least this.
    positive : label, optional
        The positive one of two classes; the second if not given.
    title : str, optional
    reproduce : str, optional
        The command that made the model; some lines of Python by default.

    Examples
    --------
    >>> import numpy as np, gyrfalcon as gf, tempfile
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = gf.KernelRegressor(random_state=0).fit(X[:150], np.sin(X[:150, 0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = gf.report.write_report(f"{folder}/report.html", model, X[150:], np.sin(X[150:, 0]))
    ...     "R²" in path.read_text(encoding="utf-8")
    True
    """
    with np.errstate(all="ignore"):  # what is not finite is shown as a dash, or not at all
        if has_labels(model):
            text = labels_page(model, X_test, y_test, threshold=threshold, title=title, reproduce=reproduce)
        else:
            found = gather(
                model, X_test, y_test, X_train, y_train, feature_names, columns, preprocessor, threshold, positive
            )
            text = _page(found, title, reproduce)
    with replacing(Path(path)) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return Path(path)


def _page(evidence: Evidence, title: str | None, reproduce: str | None) -> str:
    sections = [section for make in SECTIONS if (section := make(evidence)) is not None]
    sections.append(reproduction(evidence, reproduce))
    name = type(evidence.estimator).__name__
    today = datetime.datetime.now().astimezone().date().isoformat()
    fitted = "" if evidence.y_train is None else f"fitted to {len(evidence.y_train):,} rows, "
    subtitle = f"{name} · {len(evidence.names):,} features · {fitted}tested on {len(evidence.truth):,} · {today}"
    return page.document(title or "Model report", subtitle, sections, lead=_summary(evidence))


def _summary(evidence: Evidence) -> str:
    """The metrics in large type, and those of the baseline."""
    metrics = measure(evidence)
    several = not evidence.classes and len(evidence.outputs) > 1
    cards = [(one.name, one.shown(one.value), f"{one.interval}; baseline {one.shown(one.naive)}") for one in metrics]
    if several:
        cards = [(f"{evidence.outputs[0]}: {name}", value, remark) for name, value, remark in cards]
    if evidence.distance is not None:
        inside = evidence.distance <= BAND
        cards.append(("In the 95 % band", share(float(inside.mean())), "of the test rows"))
    guess = "the most frequent class, and how frequent each is" if evidence.classes else "the mean"
    words = f"The 95 % intervals are by bootstrap over the test rows. The baseline always predicts {guess}."
    alarm = "".join(page.warning(text) for text in evidence.findings)
    return alarm + page.cards(cards) + page.paragraph(words, soft=True)
