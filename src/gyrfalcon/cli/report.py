"""`gyrfalcon report`: write a report about a model on a table that has the target."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .evaluate import evaluate
from .options import REPORT_ENDINGS, Data, Delimiter, Encoding, Json, Model, Sheet
from .session import check_output

EXAMPLES = """
Examples:

gyrfalcon report homes.safetensors sold_homes.csv --out homes.html
"""


def command(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="The report to write (.html).")] = Path("report.html"),
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    json: Json = False,
) -> None:
    """Write a page on how good a model is on a table that has the target, and where it is wrong.

    Give it rows that the model was not fitted to.
    """
    check_output(out, REPORT_ENDINGS)
    evaluate(model, data, out, {"delimiter": delimiter, "encoding": encoding, "sheet": sheet}, None, json, "report")
