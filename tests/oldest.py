"""Runs the tests with the oldest versions that `pyproject.toml` allows: `python tests/oldest.py [options of pytest]`.

PyTorch is the exception: its old releases for the CPU are not on the package index, so the pinned one is installed.
"""

import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "oldest"
COMPANIONS = ["click==8.2.1", "pyparsing==3.1.0"]  # which others need, and whose newest versions warn beside them
TOOLS = {"mypy", "ruff", "import-linter", "sphinx", "myst-parser", "numpydoc", "pydata-sphinx-theme"}


def oldest(requirements: list[str]) -> list[str]:
    """The lower bounds, as exact versions, of those that the tests import."""
    pinned = []
    for requirement in requirements:
        name, bound = re.fullmatch(r"([A-Za-z0-9_.-]+(?:\[[^\]]*\])?)>=([0-9.]+)", requirement).groups()
        if name not in TOOLS | {"torch"}:
            pinned.append(f"{name}=={bound}")
    return pinned


def main(options: list[str]) -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = list(project["dependencies"])
    for name in (
        "arrow",
        "cli",
        "dask",
        "datasets",
        "dev",
        "excel",
        "fields",
        "hdf5",
        "pages",
        "plot",
        "remote",
        "vision",
        "zarr",
    ):
        wanted += [requirement for requirement in extras[name] if not requirement.startswith("gyrfalcon[")]
    torch = next(line for line in (ROOT / "constraints.txt").read_text().split() if line.startswith("torch=="))
    venv.create(FOLDER, with_pip=True)
    python = FOLDER / "bin" / "python"
    pip = [python, "-m", "pip", "install", "-q"]
    subprocess.run([*pip, torch], check=True)
    subprocess.run([*pip, *sorted(set(oldest(wanted))), *COMPANIONS], check=True)
    subprocess.run(
        [*pip, "--no-deps", "--no-build-isolation", "--config-settings=build-dir=build/oldest_core", ROOT], check=True
    )
    # The copy that was installed is what the tests import, because importlib mode leaves sys.path alone.
    return subprocess.run([python, "-m", "pytest", "tests", *options], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
