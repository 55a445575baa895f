"""What the command line loads: help, versions and completion come before the library does."""

import os
import subprocess
import sys

import pytest

from gyrfalcon.cli.app import app
from gyrfalcon.cli.options import OBJECTIVES, SCORES
from gyrfalcon.tables.scores import CLASS_SCORES, REGRESSION_SCORES
from gyrfalcon.tuning import OBJECTIVES as LIBRARY_OBJECTIVES

COMMANDS = [command.callback.__name__ for command in app.registered_commands]
HEAVY = ("torch", "sklearn", "scipy", "numpy", "pandas", "pyarrow")
RUN = """
import sys
from gyrfalcon.command import main
sys.argv[0] = "gyrfalcon"
try:
    main()
except SystemExit as end:
    sys.stdout.flush()
    print(end.code, [name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
"""


def loaded(*arguments, **environment):
    """What a command printed, its exit code, and the heavy modules that it loaded."""
    run = [sys.executable, "-c", RUN.format(heavy=HEAVY), *arguments]
    done = subprocess.run(run, capture_output=True, text=True, check=True, env=os.environ | environment)
    return done.stdout, done.stderr.strip()


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), *((name, "--help") for name in COMMANDS)], ids=" ".join)
def test_help_loads_nothing_heavy(arguments):
    said, loads = loaded(*arguments)
    assert "Usage" in said
    assert loads == "0 []"


@pytest.mark.parametrize(("words", "completed"), [("gyrfalcon ", "evaluate"), ("gyrfalcon fit --t", "--target")])
def test_completion_loads_nothing_heavy(words, completed):
    environment = {"_GYRFALCON_COMPLETE": "complete_bash", "COMP_WORDS": words}
    said, loads = loaded(**environment, COMP_CWORD=str(len(words.split(" ")) - 1))
    assert completed in said.split()
    assert loads == "0 []"


def test_help_names_the_scores_and_objectives_of_the_library():
    assert (*REGRESSION_SCORES, *CLASS_SCORES) == SCORES
    assert set(OBJECTIVES) == set(LIBRARY_OBJECTIVES)
