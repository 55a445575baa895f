"""Commands that serve a page: wrong options are told in one line, the address is printed, and Ctrl-C ends them."""

import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

import pytest
from PIL import Image

from gyrfalcon import fields


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("teach nowhere.mp4", "neither 'camera' nor a clip nor a folder"),
        ("teach --out model.txt", "must end in .safetensors"),
        ("teach --model none.safetensors", "there is no such file"),
        ("teach --host 0.0.0.0", "name the one address"),
        ("teach --host 10.1.2.3", "give a certificate"),
        ("teach --certificate a.pem", "belong together"),
        ("view none.safetensors", "there is no such file"),
        ("view none.safetensors --host 10.1.2.3", "give a certificate"),
    ],
)
def test_wrong_options_are_one_line(gyrfalcon, line, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = gyrfalcon(line)
    assert done.code == 1
    assert words in done.err or words in " ".join(done.err.split())
    assert len(done.err.strip().splitlines()) == 1


def test_an_unnamed_model_is_not_overwritten(gyrfalcon, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taught.safetensors").touch()
    done = gyrfalcon("teach")
    assert done.code == 1
    assert "--model taught.safetensors" in done.err


def test_a_file_that_is_no_model_is_told_by_the_worker(gyrfalcon, tmp_path):
    (tmp_path / "frames").mkdir()
    Image.new("RGB", (32, 32)).save(tmp_path / "frames" / "a.png")
    (tmp_path / "model.safetensors").write_text("no model")
    for line in (
        f"view {tmp_path}/model.safetensors --no-browser",
        f"teach {tmp_path}/frames --model {tmp_path}/model.safetensors --no-browser",
    ):
        done = gyrfalcon(line)
        assert done.code == 1
        assert "model.safetensors" in done.err.splitlines()[-1]


@pytest.mark.skipif(shutil.which("ps") is None, reason="no ps to ask for processes")
def test_the_viewer_is_served_until_ctrl_c(tmp_path):
    scene = fields.moving_spheres(views=4, size=8, moving=False)
    rays = fields.Rays.from_poses(scene.images, scene.poses, scene.focal)
    fields.KPlanes(resolutions=(8,), features=4, random_state=0).fit(rays, steps=3).save(tmp_path / "scene.safetensors")
    words = [sys.executable, "-m", "gyrfalcon", "view", str(tmp_path / "scene.safetensors"), "--no-browser"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            address = re.search(r"http://127\.0\.0\.1:\d+/#[\w-]{22}", process.stdout.readline())[0]
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(address.partition("#")[0], timeout=30) as answer:
                assert b"<!doctype html>" in answer.read()
            children = _running("--ppid", str(process.pid))
            assert children
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0
    assert "Traceback" not in said
    assert said.splitlines()[-1] == "View: ended."
    end = time.monotonic() + 30  # multiprocessing's own helper ends after the process that it served
    while children & _running("-A") and time.monotonic() < end:
        time.sleep(0.05)
    assert not children & _running("-A")


def _running(*which):
    """Numbers of processes that run, unlike those that have ended and that nobody has asked about."""
    found = subprocess.run(["ps", "-o", "pid=,stat=", *which], capture_output=True, text=True, check=True)
    return {line.split()[0] for line in found.stdout.splitlines() if not line.split()[1].startswith("Z")}
