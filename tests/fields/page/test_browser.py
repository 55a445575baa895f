"""The viewer in a real browser: mouse, fingers, keys and sliders show what the field shows from there."""

import os
import signal

import numpy as np
import pytest

from gyrfalcon.fields.page import ViewingProgram
from gyrfalcon.pages import Server
from reference.browser import BROWSER, chromium, wait
from reference.pages import BallField, ball_field

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium to view in")

POSE = np.array(BallField().stage().pose)
SIZE = (240, 320)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("browser")) as tab:
        yield tab


@pytest.fixture
def viewer(browser):
    with Server(ViewingProgram(ball_field, 320)).background() as server, browser() as tab:
        tab.look_like(1100, 800)
        tab.open(server.url)
        yield tab, server
        assert tab.complaints == []


def shown(tab):
    """The finished picture, as numbers from 0 to 1."""
    tab.until("document.getElementById('picture').dataset.finished === 'yes'")
    return tab.pictures("#picture")[0][:, :, :3] / 255


def error(picture, pose=POSE, **options):
    return np.abs(picture - BallField().render(pose, SIZE, **({"time": 0.0} | options))[0]).mean()


def turned(angle, tilt=0.0, distance=4.0):
    """The pose of a camera that looks at the origin, at an angle around z from where it was at first."""
    back = np.array([np.sin(angle) * np.cos(tilt), -np.cos(angle) * np.cos(tilt), np.sin(tilt)])
    right = np.cross([0, 0, 1], back)
    right /= np.linalg.norm(right)
    pose = np.eye(4)
    pose[:3, :3] = np.stack([right, np.cross(back, right), back], 1)
    pose[:3, 3] = distance * back
    return pose


CLOSE = 0.005  # mean error that JPEG leaves; pictures of other views are off by more than 0.01


def test_drag_wheel_and_keys_move_the_camera(viewer):
    tab, _ = viewer
    assert error(shown(tab)) < CLOSE
    tab.drag("#picture", [(0.5, 0.5), (0.4, 0.5), (0.3, 0.5)])
    picture = shown(tab)
    assert error(picture) > 2 * CLOSE
    assert error(picture, turned(1.0)) < CLOSE  # a fifth of the width is one radian
    tab.drag("#picture", [(0.5, 0.5), (0.6, 0.55), (0.7, 0.6)])
    assert error(shown(tab), turned(0.0, 0.4)) < CLOSE
    tab.key("r")
    assert error(shown(tab)) < CLOSE
    left, top = tab.place("#picture")
    tab.send("Input.dispatchMouseEvent", type="mouseWheel", x=left, y=top, deltaX=0, deltaY=-120)
    assert error(shown(tab), turned(0.0, 0.0, 4 * np.exp(-0.2))) < CLOSE
    tab.key("r")
    for _ in range(2):
        tab.key("ArrowLeft")
    tab.key("ArrowUp")
    assert error(shown(tab), turned(0.2, 0.08)) < CLOSE
    tab.screenshot("view-desktop")


def test_time_appearance_and_depth_are_chosen(viewer):
    tab, _ = viewer
    shown(tab)
    tab.run("document.getElementById('time').value = 0.5")
    tab.run("document.getElementById('time').dispatchEvent(new Event('input'))")
    picture = shown(tab)
    assert error(picture) > 2 * CLOSE
    assert error(picture, time=0.5) < CLOSE
    tab.run("document.activeElement.blur()")
    tab.key(".")
    assert error(shown(tab), time=0.55) < CLOSE
    for _ in range(2):
        tab.key("a")  # the mean, then the first and the second picture's
    assert error(shown(tab), time=0.55, appearance=1) < CLOSE
    tab.key("v")
    gray = shown(tab)
    assert np.abs(gray - gray.mean(axis=2, keepdims=True)).max() < 0.03
    tab.key(" ")
    tab.until("Number(document.getElementById('time').value) > 0.7")
    tab.key(" ")
    tab.key("t")
    tab.until("document.getElementById('turn').ariaPressed === 'true'")
    tab.key("t")
    shown(tab)


def test_fingers_turn_and_pinch_on_a_phone(viewer):
    tab, _ = viewer
    tab.look_like(390, 844, phone=True)
    tab.reload()
    assert error(shown(tab)) < CLOSE
    tab.swipe("#picture", [(0.5, 0.5), (0.4, 0.5), (0.3, 0.5)])
    assert error(shown(tab), turned(1.0)) < CLOSE
    tab.key("r")
    shown(tab)
    first, second = (dict(zip("xy", tab.place("#picture", x, 0.5), strict=True)) for x in (0.4, 0.6))
    tab.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[first | {"id": 0}, second | {"id": 1}])
    wide = [dict(zip("xy", tab.place("#picture", x, 0.5), strict=True)) | {"id": i} for i, x in enumerate((0.3, 0.7))]
    tab.send("Input.dispatchTouchEvent", type="touchMove", touchPoints=wide)
    tab.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    assert error(shown(tab), turned(0.0, 0.0, 2.0)) < CLOSE  # twice as far apart, twice as close
    assert tab.run("document.documentElement.scrollWidth") <= 390
    light = tab.screenshot("view-phone")
    tab.look_like(390, 844, phone=True, dark=True)
    dark = tab.screenshot("view-phone-dark")
    tab.look_like(1100, 800, dark=True)
    tab.screenshot("view-dark")
    assert np.median(light) > 200
    assert np.median(dark[-200:]) < 70


def test_a_killed_worker_recovers(viewer):
    tab, server = viewer
    shown(tab)
    worker = server._program.worker
    first = worker.pid
    os.kill(first, signal.SIGKILL)
    wait(lambda: worker.pid not in (first, None))
    tab.key("ArrowLeft")
    tab.key("r")
    assert error(shown(tab)) < CLOSE


def test_without_the_token_nothing_is_shown(browser):
    with Server(ViewingProgram(ball_field, 320)).background() as server, browser() as tab:
        tab.open(server.url.partition("#")[0])
        tab.until("document.getElementById('toasts').textContent.includes('token')")
        tab.until("document.getElementById('status').textContent === 'not connected'")
