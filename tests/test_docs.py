"""The pages of the site and README, as a newcomer would use them: code and commands run, links lead somewhere, names
are documented.

The blocks of a page are run in order, in one folder and with one set of names, at the small sizes of SMALLER. What is
not run is named here, with the reason.
"""

import importlib
import inspect
import itertools
import re
import shlex
import tomllib
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from benchmarks.__main__ import _parser as benchmarks
from typer.testing import CliRunner

import gyrfalcon
from gyrfalcon.cli.app import app

ROOT = Path(__file__).parents[1]
PAGES = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in ROOT.glob("docs/*.md")}
PAGES |= {name: (ROOT / name).read_text("utf-8") for name in ("README.md", "CONTRIBUTING.md")}
API = (ROOT / "docs" / "api.rst").read_text("utf-8")
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]

BLOCK = re.compile(r"^ *```(\w+)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
BENCHMARK = re.compile(r"python -m benchmarks( [\w. -]+)")

# Sizes on the page, and those of the test.
SMALLER = {
    "README.md": {"100_000": "2_000", "1000": "100"},
    "docs/dask.md": {
        "1_000_000": "2_000",
        "100_000": "500",
        "X, 500": "X, 50",
        "n_workers=2": "n_workers=1, processes=False",
    },
    "docs/eigenpro.md": {"20_000": "1_000", "X[:1000]": "X[:100]"},
    "docs/engine.md": {"1_000_000": "2_000", "1000": "100"},
    "docs/scale.md": {"n=1e8": "n=1e6", "m=1000": "m=100"},
    "docs/random_features.md": {
        "(5000, 4)": "(1000, 4)",
        "4000": "800",
        "2000": "200",
        "n_features=1000": "n_features=300",
    },
    "docs/stochastic.md": {"2000": "300"},
    "docs/tuning.md": {"steps=200": "steps=5"},
}
# Clusters that are not here; libraries that may be, and pages that show pieces of a program.
UNRUN_CODE = ("SLURMCluster", "KubeCluster")
PEERS = ("falkon", "gpytorch")
PIECES = ("CONTRIBUTING.md", "docs/extending.md", "docs/changelog.md")
# These build, install or compute for minutes: that they exist is all that is checked here. The first two are what the
# suite itself is run by, and benchmarks have sizes of their own; `--quick` is for trying one. `segment` needs weights
# that are downloaded; tests/vision/test_clips.py runs it without them.
UNRUN_COMMANDS = ("make", "pip install", "python -m benchmarks", "gyrfalcon segment")


def blocks(page, *languages):
    """Languages and texts of the blocks, each after as many empty lines as makes the numbers of its lines right."""
    found = [match for match in BLOCK.finditer(PAGES[page]) if match[1] in languages]
    return [(match[1], "\n" * PAGES[page][: match.start(2)].count("\n") + match[2]) for match in found]


def commands(page):
    lines = "\n".join(body for _, body in blocks(page, "console")).splitlines()
    return [line.removeprefix("$ ").split("  #")[0].strip() for line in lines if line.startswith("$ ")]


@pytest.mark.parametrize("page", [page for page in PAGES if page not in PIECES and blocks(page, "python", "console")])
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")  # used by GPyTorch
def test_what_is_shown_runs(page, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for language, body in blocks(page, "python", "console"):
        if language == "console":
            for line in re.findall(r"^\$ gyrfalcon (.*)$", body, re.MULTILINE):
                if not f"gyrfalcon {line}".startswith(UNRUN_COMMANDS):
                    _run(line)
        elif not any(name in body for name in UNRUN_CODE) and not any(
            body.lstrip().startswith(f"import {peer}") and find_spec(peer) is None for peer in PEERS
        ):
            for size, small in SMALLER.get(page, {}).items():
                body = body.replace(size, small)
            exec(compile(body, page, "exec"), names)


def _run(line):
    words = shlex.split(line, comments=True)
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, (line, done.stderr)
    assert done.stdout.startswith("{") == ("--json" in words), line
    for option, name in itertools.pairwise(words):
        if option in ("--out", "--report"):
            assert Path(name).stat().st_size > 0, line


@pytest.mark.parametrize("page", PAGES)
def test_commands_exist(page):
    for line in commands(page):
        assert line.startswith(("gyrfalcon ", *UNRUN_COMMANDS)), line
    for target in re.findall(r"(?:`|^\$ )make ([a-z]+)", PAGES[page], re.MULTILINE):
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), target
    for words in BENCHMARK.findall(PAGES[page]):
        benchmarks().parse_args(words.split("  ")[0].split())
    for extra in re.findall(r"gyrfalcon\[([\w,]+)\]", PAGES[page]):
        assert set(extra.split(",")) <= set(EXTRAS), extra


def test_every_command_has_a_place_on_its_page():
    shown = {line.split()[1] for line in commands("docs/command_line.md") if line.startswith("gyrfalcon")}
    assert shown == {command.callback.__name__ for command in app.registered_commands}


def _anchors(text):
    headings = re.findall(
        r"^#+ (.*)$", re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    """Those to other pages and headings; of those to the world, that they are addresses."""
    text = re.sub(r"`[^`\n]+`|^ *```.*?^ *```", "", PAGES[page], flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"", text):
        address = urlsplit("".join(target))
        if address.scheme:
            assert address.scheme == "https", target
            assert "." in address.netloc, target
            continue
        path = ((ROOT / page).parent / address.path).resolve() if address.path else ROOT / page
        assert path.exists(), target
        if address.fragment:
            assert address.fragment in _anchors(path.read_text("utf-8")), target


MODULES = ["gyrfalcon"] + [
    f"gyrfalcon.{name}" for name in gyrfalcon.__all__ if inspect.ismodule(getattr(gyrfalcon, name))
]
LISTED = set(re.findall(r"^   ([\w.]+)$", API.partition(".. toctree::")[0], re.MULTILINE))


def _shown(module):
    """Classes and functions of a module's __all__, as docs/api.rst names them; tables and aliases have no docstring."""
    public = {name: getattr(importlib.import_module(module), name) for name in importlib.import_module(module).__all__}
    shown = {name for name, value in public.items() if inspect.isclass(value) or inspect.isfunction(value)}
    return {f"{module}.{name}".removeprefix("gyrfalcon.") for name in shown}


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_listed(module):
    assert {name for name in _shown(module) if not {name, name.split(".")[-1]} & LISTED} == set()
    for name in importlib.import_module(module).__all__:
        assert re.search(rf"\b{name}\b", API) or inspect.ismodule(getattr(gyrfalcon, name, None)), name


def test_every_listed_name_has_an_example():
    assert len(LISTED) > 100
    without = {name for name in LISTED if ">>>" not in (_find(name).__doc__ or "")}
    assert without == set()


def _find(name):
    """What a name in docs/api.rst stands for."""
    *modules, last = name.split(".")
    return getattr(importlib.import_module(".".join(["gyrfalcon", *modules])), last)
