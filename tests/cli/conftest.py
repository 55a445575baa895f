"""A small table with all that tables have, a model of it, and the command in this process."""

import json
import shlex
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from gyrfalcon.cli.app import app
from gyrfalcon.cli.demo import homes
from gyrfalcon.cli.output import write_columns


def run(line, *more):
    """Run a command line; what it printed, and the JSON of that if there is one."""
    done = CliRunner().invoke(app, [*shlex.split(line), *map(str, more)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    result = json.loads(done.stdout) if done.stdout.startswith("{") else None
    return SimpleNamespace(code=done.exit_code, out=done.stdout, err=done.stderr, result=result)


@pytest.fixture(scope="session")
def gyrfalcon():
    return run


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """homes.csv and new_homes.csv, and models of a regression and of a classification; not to be written to."""
    folder = tmp_path_factory.mktemp("homes")
    table = homes(200)
    table["kind"] = np.where(table["price"] > 350, "dear", "cheap")
    write_columns(folder / "homes.csv", {name: cells[:160] for name, cells in table.items()})
    write_columns(folder / "new_homes.csv", {name: cells[160:] for name, cells in table.items()})
    for target, other in (("price", "kind"), ("kind", "price")):
        out = folder / f"{target}.safetensors"
        done = run(f"fit {folder}/homes.csv --target {target} --drop {other} --json --out", out)
        assert done.code == 0, done.err
        (folder / f"{target}.json").write_text(done.out)
    return folder
