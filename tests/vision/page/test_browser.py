"""The teaching page in a real browser whose camera shows a known clip: mark, train, find, undo, save, recover."""

import functools
import json
import os
import signal
import time

import numpy as np
import pytest
from PIL import Image

from gyrfalcon.vision.page import serve_from
from reference.browser import BROWSER, chromium, wait
from reference.pages import COLORS, color_teacher, scene, segmenter, write_y4m

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium to teach in")

MASK_OPACITY = (90, 130)  # of 255, with which masks are filled


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    write_y4m(folder / "clip.y4m", [scene(step, size=(480, 640))[0] for step in range(40)])
    with chromium(folder / "profile", f"--use-file-for-fake-video-capture={folder / 'clip.y4m'}") as tab:
        yield tab


@pytest.fixture
def lesson(browser, tmp_path):
    """A tab with the page, its server, and the file it saves to."""
    server = serve_from(functools.partial(color_teacher, gate=str(tmp_path / "gate")), out=tmp_path / "model.json")
    (tmp_path / "gate").touch()
    with server.background(), browser() as tab:
        tab.look_like(1280, 800)
        tab.open(server.url)
        ready(tab)
        yield tab, server
        assert tab.complaints == []


def ready(tab):
    tab.until("document.getElementById('empty').hidden")


def new_class(tab, name):
    count = tab.run("document.querySelectorAll('#classes li').length")
    tab.key("n")
    tab.type(name)
    tab.key("Enter")
    tab.until(f"document.querySelectorAll('#classes li').length === {count + 1}")


def truth(picture, name):
    """The mask of an object, by its color, which no camera and no compression changes much."""
    return np.linalg.norm(picture[:, :, :3].astype(float) - COLORS[name], axis=2) < 70


def corners(mask):
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    height, width = mask.shape
    return (columns[0] / width, rows[0] / height), ((columns[-1] + 1) / width, (rows[-1] + 1) / height)


def draw_box(tab, name):
    """Hold the picture if it is not held, and drag a box around an object."""
    if tab.run("document.getElementById('frozen').hidden"):
        tab.key(" ")
    first, last = corners(truth(tab.pictures("#picture")[0], name))
    tab.drag("#overlay", [first, ((first[0] + last[0]) / 2, last[1]), last])


def taught(tab, count):
    """Wait until a model is ready that has learned from so many pictures."""
    words = "one picture" if count == 1 else f"{count} pictures"
    tab.until(f"document.getElementById('taught').textContent === '{words}'")
    tab.until("document.getElementById('model').textContent === 'ready'")


def finds(tab, count):
    tab.until(f"document.querySelectorAll('#found li').length === {count}")


def overlap(tab, name, color):
    """Intersection over union of what the page shows as found with the truth of the picture under it."""
    picture, overlay = tab.pictures("#picture", "#overlay")
    overlay = np.asarray(Image.fromarray(overlay).resize(picture.shape[1::-1], Image.Resampling.NEAREST)).astype(int)
    rgb = [int(color[place : place + 2], 16) for place in (1, 3, 5)]
    tinted = np.abs(overlay[:, :, :3] - rgb).max(axis=2) < 12
    mask = (overlay[:, :, 3] > MASK_OPACITY[0]) & (overlay[:, :, 3] < MASK_OPACITY[1]) & tinted
    wanted = truth(picture, name)
    return (mask & wanted).sum() / (mask | wanted).sum()


ORANGE, BLUE = "#ff9f1c", "#2ec4f1"  # of the first and the second class


def later_overlaps(tab, name, color, count=4):
    """The overlaps in pictures that follow each other, each of another moment."""
    found, seen = [], set()
    end = time.monotonic() + 60
    while len(found) < count and time.monotonic() < end:
        value = overlap(tab, name, color)
        picture = hash(tab.pictures("#picture")[0].tobytes())
        if picture not in seen:
            seen.add(picture)
            found.append(value)
    assert len(found) == count
    return found


def test_a_box_teaches_and_a_second_class_and_undo_do_what_they_say(lesson, tmp_path):
    tab, server = lesson
    new_class(tab, "ball")
    draw_box(tab, "ball")
    assert tab.text("#commit-words").startswith("1 marked")
    tab.key("Enter")
    taught(tab, 1)
    finds(tab, 1)
    ball = later_overlaps(tab, "ball", ORANGE)
    assert min(ball) > 0.85, ball

    new_class(tab, "brick")
    draw_box(tab, "brick")
    assert tab.text("#commit-words").startswith("1 marked, 1 left open")
    tab.click("#teach")
    taught(tab, 2)
    finds(tab, 2)
    both = later_overlaps(tab, "ball", ORANGE) + later_overlaps(tab, "brick", BLUE)
    assert min(both) > 0.85, both

    draw_box(tab, "brick")  # which tests the model before it is taught
    tab.key("Enter")
    taught(tab, 3)
    assert int(tab.text("#accuracy").split()[0]) > 80
    tab.key("z", control=True)
    tab.until("document.getElementById('taught').textContent.startsWith('2 ')")
    tab.click("#undo")
    tab.until("document.getElementById('taught').textContent === 'one picture'")
    finds(tab, 1)
    assert min(later_overlaps(tab, "ball", ORANGE)) > 0.85
    assert max(later_overlaps(tab, "brick", BLUE, 2)) == 0

    tab.key("s")
    tab.until("document.getElementById('toasts').textContent.includes('Saved')")
    assert list(json.loads((tmp_path / "model.json").read_text())) == ["ball"]
    tab.screenshot("teach-desktop")

    tab.reload()  # the token is kept for this window, and the lesson by the server
    ready(tab)
    tab.until("document.querySelectorAll('#classes li').length === 2")
    assert tab.text("#taught") == "one picture"
    finds(tab, 1)
    assert min(later_overlaps(tab, "ball", ORANGE)) > 0.85
    assert tab.run("location.href") == server.url.partition("#")[0]


def test_a_saved_model_finds_at_once(browser, tmp_path):
    (tmp_path / "old.json").write_text(json.dumps({name: COLORS[name] for name in ("ball", "brick")}))
    make = functools.partial(color_teacher, str(tmp_path / "old.json"))
    with serve_from(make, out=tmp_path / "new.json").background() as server, browser() as tab:
        tab.open(server.url)
        finds(tab, 2)
        assert min(later_overlaps(tab, "ball", ORANGE, 2) + later_overlaps(tab, "brick", BLUE, 2)) > 0.85
        assert tab.complaints == []


def test_the_real_teacher_learns_and_its_file_is_taught_further(browser, tmp_path):
    """`InstanceSegmenter` on colors alone: boxes in three pictures, then a second class, undo, and a new server."""
    path = tmp_path / "ball.safetensors"
    with serve_from(segmenter, out=path).background() as server, browser() as tab:
        tab.look_like(1280, 800)
        tab.open(server.url)
        ready(tab)
        new_class(tab, "ball")
        for count in (1, 2, 3):
            draw_box(tab, "ball")
            tab.key("Enter")
            taught(tab, count)
            time.sleep(0.6)  # the ball goes elsewhere
        tab.until("document.querySelectorAll('#found li').length >= 1")
        ball = later_overlaps(tab, "ball", ORANGE)
        assert np.mean(ball) > 0.6, ball
        new_class(tab, "brick")
        for count in (4, 5):
            draw_box(tab, "brick")
            tab.key("Enter")
            taught(tab, count)
            time.sleep(0.6)
        tab.until("document.querySelector('#found').textContent.includes('brick')")
        tab.key("z", control=True)
        tab.key("z", control=True)
        taught(tab, 3)
        tab.until("!document.querySelector('#found').textContent.includes('brick')")
        tab.key("s")
        wait(path.exists)
        assert tab.complaints == []
    make = functools.partial(segmenter, str(path))
    with serve_from(make, out=tmp_path / "more.safetensors").background() as server, browser() as tab:
        tab.open(server.url)
        tab.until("document.querySelector('#found').textContent.includes('ball')")
        again = later_overlaps(tab, "ball", ORANGE)
        assert np.mean(again) > 0.6, again


def test_brush_eraser_keys_and_steps_back(lesson):
    tab, _ = lesson
    new_class(tab, "ball")
    tab.key("l")  # no update after each picture
    tab.until("!document.getElementById('live').checked")
    tab.key(" ")
    first, last = corners(truth(tab.pictures("#picture")[0], "ball"))
    middle = [(a + b) / 2 for a, b in zip(first, last, strict=True)]
    away = (0.05 if middle[0] > 0.5 else 0.95, 0.05)

    def marked():
        return int((tab.pictures("#overlay")[0][:, :, 3] > 0).sum())

    tab.key("p")
    tab.drag("#overlay", [(middle[0] - 0.03, middle[1]), tuple(middle), (middle[0] + 0.03, middle[1])])
    painted = marked()
    assert painted > 0
    tab.drag("#overlay", [away, (away[0], 0.1)])
    assert marked() > painted
    tab.key("z", control=True)
    assert marked() == painted
    tab.key("e")
    tab.drag("#overlay", [(middle[0] + 0.03, middle[1]), (middle[0] + 0.02, middle[1])])
    assert 0 < marked() < painted
    tab.key("Enter")
    tab.until("document.getElementById('taught').textContent === 'one picture'")
    assert tab.text("#model") == "not trained"
    tab.key("u")
    taught(tab, 1)
    finds(tab, 1)
    assert min(later_overlaps(tab, "ball", ORANGE, 2)) > 0.85

    tab.key("b")
    tab.run("document.getElementById('overlay').focus()")
    tab.key("ArrowLeft")
    tab.key("ArrowDown", shift=True)
    tab.key("Enter")  # the box is marked
    assert "1 marked" in tab.text("#commit-words")
    tab.key("Escape")
    assert tab.run("document.getElementById('commit').hidden")


def test_what_is_wrong_is_not_taught(lesson):
    tab, _ = lesson
    new_class(tab, "ball")
    draw_box(tab, "ball")
    tab.key("Enter")
    taught(tab, 1)
    finds(tab, 1)
    tab.click("#found .wrong")
    assert tab.text("#commit-words").startswith("1 wrong")
    tab.key("Enter")
    taught(tab, 2)
    assert tab.text("#classes .count") == "1"  # of two pictures, one has a ball


def test_the_old_model_answers_while_the_new_one_is_trained(lesson, tmp_path):
    tab, _ = lesson
    new_class(tab, "ball")
    draw_box(tab, "ball")
    tab.key("Enter")
    taught(tab, 1)
    finds(tab, 1)
    (tmp_path / "gate").unlink()
    new_class(tab, "brick")
    draw_box(tab, "brick")
    tab.key("Enter")
    tab.until("document.getElementById('model').textContent === 'training'")
    assert min(later_overlaps(tab, "ball", ORANGE)) > 0.85
    assert max(later_overlaps(tab, "brick", BLUE, 2)) == 0
    assert tab.text("#model") == "training"
    (tmp_path / "gate").touch()
    taught(tab, 2)
    finds(tab, 2)


def test_a_killed_worker_recovers(lesson, tmp_path):
    tab, server = lesson
    new_class(tab, "ball")
    draw_box(tab, "ball")
    tab.key("Enter")
    taught(tab, 1)
    finds(tab, 1)
    worker = server._program.worker
    first = worker.pid
    os.kill(first, signal.SIGKILL)
    tab.until("document.getElementById('toasts').textContent.includes('started again')")
    assert worker.pid != first
    assert min(later_overlaps(tab, "ball", ORANGE)) > 0.85
    (tmp_path / "gate").unlink()  # and once more, in the middle of a training
    new_class(tab, "brick")
    draw_box(tab, "brick")
    tab.key("Enter")
    tab.until("document.getElementById('model').textContent === 'training'")
    second = worker.pid
    os.kill(second, signal.SIGKILL)
    (tmp_path / "gate").touch()
    taught(tab, 2)
    wait(lambda: worker.pid != second)
    finds(tab, 2)
    tab.key("z", control=True)  # with the numbers of the new worker
    finds(tab, 1)


def test_without_the_token_the_page_says_so(browser, tmp_path):
    with serve_from(color_teacher, out=tmp_path / "model.json").background() as server, browser() as tab:
        for address in (server.url.partition("#")[0], server.url[:-1] + "?"):
            tab.open("about:blank")
            tab.open(address)
            tab.until("document.getElementById('toasts').textContent.includes('token')")
            tab.until("document.getElementById('status').textContent === 'not connected'")


def test_phones_and_the_dark(lesson):
    tab, _ = lesson
    tab.look_like(390, 844, phone=True)
    tab.reload()
    ready(tab)
    new_class(tab, "ball")
    first, last = corners(truth(tab.pictures("#picture")[0], "ball"))
    tab.swipe("#overlay", [first, (0.5, 0.5), last])
    tab.until("!document.getElementById('commit').hidden")
    light = tab.screenshot("teach-phone")
    wide = (
        "[...document.querySelectorAll('body *')].filter(e => !e.closest('.visually-hidden, dialog') && "
        "e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"
    )
    assert tab.run(wide) == []
    assert tab.run("document.documentElement.scrollWidth") <= 390
    small = (
        "[...document.querySelectorAll('.tools button, #teach, #discard, #new-class')].filter(e => e.offsetParent && "
        "(e.getBoundingClientRect().height < 40 || e.getBoundingClientRect().width < 40)).map(e => e.id)"
    )
    assert tab.run(small) == []  # nothing that a finger would miss
    tab.look_like(390, 844, phone=True, dark=True)
    dark = tab.screenshot("teach-phone-dark")
    tab.look_like(1280, 800, dark=True)
    tab.click("#discard")
    tab.screenshot("teach-dark")
    assert np.median(light) > 200
    assert np.median(dark) < 70
    assert min(len(np.unique(part.reshape(-1, 3), axis=0)) for part in np.array_split(light, 6)) > 8


def test_everything_has_a_name_for_those_who_listen(lesson):
    tab, _ = lesson
    nameless = (
        "[...document.querySelectorAll('button, input, canvas[tabindex], dialog')].filter(e => !(e.textContent.trim() "
        "|| e.ariaLabel || e.labels?.length || e.getAttribute('aria-labelledby'))).map(e => e.outerHTML.slice(0, 80))"
    )
    assert tab.run(nameless) == []
    tab.key("?")
    assert tab.run("document.getElementById('help-dialog').open")
    tab.screenshot("teach-help")
