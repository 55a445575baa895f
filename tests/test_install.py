"""Installing where the native core cannot be built still gives a working, pure-Python wheel."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_a_broken_compiler_gives_a_wheel_without_the_core(tmp_path):
    pytest.importorskip("scikit_build_core")
    if os.environ.get("GYRFALCON_SANITIZED"):
        pytest.skip("the sanitizers have nothing to find in pip")
    broken = tmp_path / "c++"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "--no-build-isolation", "-q"),
            *("-w", str(tmp_path / "wheels"), "-C", f"build-dir={tmp_path / 'build'}"),
        ],
        env=os.environ | {"CXX": str(broken)},
        check=True,
        capture_output=True,
    )
    (wheel,) = (tmp_path / "wheels").glob("*.whl")
    assert wheel.name.endswith("py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"gyrfalcon/matrix/kernel_matrix.py", "gyrfalcon/command.py"} <= set(names)
    pages = {"pages/assets/base.js", "vision/page/teach.html", "vision/page/marks.js", "fields/page/view.html"}
    assert {f"gyrfalcon/{name}" for name in pages} <= set(names)
    assert not any("_native" in name for name in names)
