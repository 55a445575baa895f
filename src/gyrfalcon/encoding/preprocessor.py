"""Tables with numbers, categories, dates and missing values as floats, by rules that a model file can hold."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from gyrfalcon.persistence import Savable, State

from .columns import Array, Column, as_column, is_table, listed, named_columns
from .formats import DECIMALS, DateFormat, NumberFormat, ReadingWarning, formatted
from .inference import Reading, infer_formats
from .rules import CategoryRule, DateRule, NumberRule, Rule

MOST_UNREADABLE = 0.5  # of the cells of a new table, of which more mean that it is written in another way
_TYPES = ("float32", "float64")


class UnseenWarning(UserWarning):
    """Rows hold categories or missing values that were not in the fit.

    >>> import gyrfalcon as gf, warnings
    >>> preprocessor = gf.TablePreprocessor().fit({"city": ["Rome", "Oslo"] * 3})
    >>> with warnings.catch_warnings(record=True, action="always") as told:
    ...     preprocessor.transform({"city": ["Bergen"]})
    array([[0.5]])
    >>> print(told[0].message)
    columns hold values that were not in the fit: 'city' in 1 of 1 rows, such as 'Bergen'
    """


class TablePreprocessor(Savable, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turns the columns of a table into floats, each by the rule of its kind.

    - Numbers and booleans stay numbers. A missing one becomes the median, and a second feature says that it was missing
      if any was in the fit.
    - Text is categories: one feature for each of the `max_categories` most frequent that has at least `min_share` of
      the rows. The others, and those that the fit has not seen, share one feature; where there are more categories than
      the limit, another is the logarithm of how often the category occurred. A missing value is a category.
    - Dates are days since 1970 and points on the circles of the year, the week and the day.
    - Text that holds dates such as 09/26/2024, 26.09.2024 or 26 Sep 2024, or numbers such as $3,380.34, 1.234,56 € or
      19.6%, is read as what it is. The format of each column is found in the fit, and it stays. At least 95 % of the
      cells must have it; the others count as missing.
    - Columns without a value, or with the same in every row, are dropped, and so are features that do not vary.

    Scales are left alone: estimators have one length scale per feature. Targets are never looked at.

    Parameters
    ----------
    categorical : sequence of str
        Columns of numbers that are names: postcodes, codes of products. They are not read as numbers or dates.
    max_categories : int
    min_share : float
    dtype : "float64" or "float32"
    date_format : str or dict of str to str, optional
        How dates are written, as in `datetime.strptime`: in all columns that can be read so, or by column. Without it,
        the cells decide. Where no day is above 12, another column of dates decides if it can; else the month comes
        first between slashes, and the day between points and hyphens.
    decimal : "." or ",", optional
        The decimal separator of text that could be read with either, such as 1,234, which otherwise has a comma between
        thousands.

    Attributes
    ----------
    rules_ : list of Rule
        In the order of the features.
    readings_ : dict of str to Reading
        Columns of text that are read as numbers or dates, and how.
    dropped_ : dict of str to str
        Columns without a feature, and why.
    n_features_in_, feature_names_in_
        Of the table.

    Examples
    --------
    >>> import gyrfalcon as gf
    >>> table = {"area": [50.0, None, 80.0, 64.0], "city": ["Rome", "Oslo", "Rome", "Oslo"], "country": ["x"] * 4}
    >>> preprocessor = gf.TablePreprocessor().fit(table)
    >>> preprocessor.get_feature_names_out().tolist()
    ['area', 'area is missing', 'city = Oslo']
    >>> preprocessor.transform(table)
    array([[50.,  0.,  0.],
           [64.,  1.,  1.],
           [80.,  0.,  0.],
           [64.,  0.,  1.]])
    >>> preprocessor.dropped_
    {'country': 'every row holds the same'}
    """

    rules_: list[Rule]
    readings_: dict[str, Reading]
    dropped_: dict[str, str]
    n_features_in_: int

    def __init__(
        self,
        *,
        categorical: Any = (),
        max_categories: int = 20,
        min_share: float = 0.01,
        dtype: str = "float64",
        date_format: Any = None,
        decimal: str | None = None,
    ):
        self.categorical = categorical
        self.max_categories = max_categories
        self.min_share = min_share
        self.dtype = dtype
        self.date_format = date_format
        self.decimal = decimal

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the rules.

        Parameters
        ----------
        X : dict of columns, Arrow table, pandas or polars frame, or array of shape (n, d)
        y : ignored
        """
        self._check_parameters()
        columns = self._columns(X, reset=True)
        if unknown := [name for name in self.categorical if name not in columns]:
            raise ValueError(f"categorical: there is no column {unknown[0]!r}, there are {listed(list(columns))}")
        if (rows := len(next(iter(columns.values())))) < 2:
            raise ValueError(f"the table has {'one sample' if rows else 'no rows'}: rules need at least two rows")
        rules: list[Rule] = []
        dropped: dict[str, str] = {}
        read = [as_column(name, cells) for name, cells in columns.items()]
        readings = self._infer(read)
        for column in read:
            name = column.name
            if name in readings:
                column = formatted(column, readings[name].format, 1.0)[0]
            rule = None if column.kind == "empty" else self._learn(column)
            if rule is not None and rule.kept:
                rules.append(rule)
            else:
                dropped[name] = _why_dropped(column)
        if not rules:
            named = "; ".join(f"{name}: {why}" for name, why in list(dropped.items())[:5])
            raise ValueError(f"no column is left to predict from ({named})")
        self.rules_, self.dropped_, self.readings_ = rules, dropped, readings
        return self

    def _infer(self, columns: list[Column]) -> dict[str, Reading]:
        """How columns of text are read; what its cells leave open is told."""
        by_column = isinstance(self.date_format, Mapping)
        dates = dict(self.date_format) if by_column else {}
        names = [column.name for column in columns]
        if unknown := [name for name in dates if name not in names]:
            raise ValueError(f"date_format: there is no column {unknown[0]!r}, there are {listed(names)}")
        found = infer_formats(
            (column for column in columns if column.name not in self.categorical),
            decimal=self.decimal,
            dates=dates,
            pattern="" if by_column else self.date_format or "",
        )
        for name, reading in found.items():
            if reading.rule or reading.unreadable:
                warnings.warn(f"column {name!r} is read as {reading}", ReadingWarning, stacklevel=3)
        return found

    def transform(self, X: Any) -> Array:
        """Features of shape (n, features); values that were not in the fit are told by an UnseenWarning.

        Parameters
        ----------
        X : table or array
            Columns are found by their names, in any order; there may be others.
        """
        check_is_fitted(self)
        columns = self._columns(X, reset=False)
        if absent := [rule.name for rule in self.rules_ if rule.name not in columns]:
            more = f" and {len(absent) - 1} more that the fit had" if len(absent) > 1 else ", which the fit had"
            raise ValueError(f"the table has no column {absent[0]!r}{more}: it has {listed(list(columns))}")
        rows = len(next(iter(columns.values())))
        out = np.empty((rows, sum(len(rule.kept) for rule in self.rules_)), dtype=self.dtype)
        unseen, at = [], 0
        for rule in self.rules_:
            column, unread, example = self._read(rule, columns[rule.name])
            if unread:
                unseen.append(f"{rule.name!r} in {unread:,} of {rows:,} rows, such as {example!r}")
            out[:, at : at + len(rule.kept)] = rule(column)
            at += len(rule.kept)
            count, example = rule.unseen(column)
            if count > unread:
                unseen.append(f"{rule.name!r} in {count:,} of {rows:,} rows, such as {example}")
        if unseen:
            named = "; ".join(unseen[:3]) + (f"; and {len(unseen) - 3} more columns" if len(unseen) > 3 else "")
            warnings.warn(f"columns hold values that were not in the fit: {named}", UnseenWarning, stacklevel=2)
        return out

    def _read(self, rule: Rule, cells: Any) -> tuple[Column, int, str]:
        """A column as the fit read it; how many cells cannot be read so, which count as missing, and one of them."""
        column = as_column(rule.name, cells)
        reading = self.readings_.get(rule.name)
        if reading is not None and column.kind not in ("empty", reading.format.kind):
            return formatted(column, reading.format, MOST_UNREADABLE, reading.words)
        if column.kind == "category" and isinstance(rule, NumberRule):  # 1,234.5 where the fit had no thousands
            return formatted(column, NumberFormat(self.decimal or "."), 0.0)
        return column, 0, ""

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """What the features are called.

        Parameters
        ----------
        input_features : ignored
        """
        check_is_fitted(self)
        return np.array([name for rule in self.rules_ for name in rule.names], dtype=object)

    @property
    def sources(self) -> list[str]:
        """The column of the table that each feature was made from."""
        return [rule.name for rule in self.rules_ for _ in rule.kept]

    def _check_parameters(self) -> None:
        if self.dtype not in _TYPES:
            raise ValueError(f"dtype must be one of {_TYPES}, got {self.dtype!r}")
        if not isinstance(self.max_categories, int) or self.max_categories < 1:
            raise ValueError(f"max_categories must be a positive whole number, got {self.max_categories!r}")
        if not 0 <= self.min_share < 1:
            raise ValueError(f"min_share must lie between 0 and 1, got {self.min_share!r}")
        if self.decimal is not None and self.decimal not in DECIMALS:
            raise ValueError(f"decimal must be one of {DECIMALS} or None, got {self.decimal!r}")
        patterns = self.date_format.values() if isinstance(self.date_format, Mapping) else [self.date_format]
        for pattern in patterns:
            if pattern is not None and not isinstance(pattern, str):
                raise ValueError(f"date_format must be text such as %d.%m.%Y, or a dict of such, got {pattern!r}")
            if pattern:
                DateFormat(pattern)

    def _columns(self, X: Any, *, reset: bool) -> Mapping[str, Any]:
        if is_table(X):
            columns = named_columns(X)
            if not columns:
                raise ValueError("the table has no columns to predict from")
            if reset:
                self.n_features_in_, self.feature_names_in_ = len(columns), np.array(list(columns), dtype=object)
            return columns
        array = validate_data(self, X, dtype=None, ensure_all_finite="allow-nan", reset=reset)
        names = getattr(self, "feature_names_in_", None)
        return {f"x{j}" if names is None else names[j]: array[:, j] for j in range(array.shape[1])}

    def _learn(self, column: Column) -> Rule:
        if column.kind == "category" or column.name in self.categorical:
            return CategoryRule.learn(column, self.max_categories, self.min_share)
        return DateRule.learn(column) if column.kind == "date" else NumberRule.learn(column)

    def _describe_parameter(self, name: str, value: Any) -> Any:
        if name == "date_format" and isinstance(value, Mapping):
            return {str(column): str(pattern) for column, pattern in value.items()}
        return super()._describe_parameter(name, value)

    def _read_parameter(self, name: str, value: Any) -> Any:
        return value if name == "date_format" else super()._read_parameter(name, value)

    def _state(self) -> State:
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        return {
            "columns": self.n_features_in_,
            "names": None if names is None else names.tolist(),
            "rules": [rule.to_dict() for rule in self.rules_],
            "dropped": self.dropped_,
            "readings": {name: reading.to_dict() for name, reading in self.readings_.items()},
        }, {}

    def _set_state(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        self._check_parameters()
        self.n_features_in_ = int(values["columns"])
        if values["names"] is not None:
            self.feature_names_in_ = np.array(values["names"], dtype=object)
        self.rules_ = [Rule.from_dict(description) for description in values["rules"]]
        self.dropped_ = dict(values["dropped"])
        readings = values.get("readings", {})  # files of versions before had none
        self.readings_ = {str(name): Reading.from_dict(description) for name, description in readings.items()}


def _why_dropped(column: Column) -> str:
    if column.kind == "empty":
        return "no row holds a value"
    if column.kind == "category" and len(set(column.values)) > 1:
        count, rows = len(set(column.values)), len(column.values)
        return f"text that is different in nearly every row, {count:,} in {rows:,}, such as {_example(column)!r}"
    return "every row holds the same"


def _example(column: Column) -> str:
    """A text that is no number if there is one: it may be why a column of numbers is none."""
    present = [text for text in column.values if text is not None]
    return str(next((text for text in present if not re.fullmatch(r"[-+.\deE]+", text)), present[0]))
