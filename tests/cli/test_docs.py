"""Every command of docs/command_line.md, in order, in one folder; and its Python."""

import itertools
import re
import shlex
from pathlib import Path

from gyrfalcon.cli.app import app

PAGE = (Path(__file__).parents[2] / "docs" / "command_line.md").read_text()
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
LINES = re.findall(r"^\$ gyrfalcon (.*)$", "\n".join(BLOCKS), re.MULTILINE)


def test_every_command_of_the_page(gyrfalcon, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for line in LINES:
        done = gyrfalcon(line)
        assert done.code == 0, (line, done.err)
        assert (done.result is not None) == ("--json" in line)
        words = shlex.split(line)
        for option, name in itertools.pairwise(words):
            if option in ("--out", "--report"):
                assert Path(name).stat().st_size > 0
    code = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
    names = {}
    exec(code, names)
    assert names["model"].target_ == "price"


def test_every_command_has_a_place_on_the_page():
    shown = {line.split()[0] for line in LINES}
    assert shown == {command.callback.__name__ for command in app.registered_commands}
