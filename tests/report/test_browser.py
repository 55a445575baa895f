"""Reports in a real browser: they say something, complain of nothing, and fit a phone, in light and in dark."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_diabetes, load_digits, load_wine

import gyrfalcon as gf
from reference.forecasting import make

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--hide-scrollbars"]
FLAGS += ["--allow-file-access-from-files", "--enable-logging=stderr", "--v=0", "--virtual-time-budget=2000"]
PHONE = 360
DARK = "--blink-settings=preferredColorScheme=0"
# Elements that reach beyond the window and are in no box that scrolls, and boxes in figures that need to be scrolled.
CHECK = """<!doctype html><title>check</title><body style="margin:0">{frames}<pre id="found"></pre><script>
onload = () => {{ for (const frame of document.querySelectorAll("iframe")) {{
  const page = frame.contentDocument, wide = [...page.body.querySelectorAll("*")].filter(
    e => !e.closest(".scroll, pre, svg, .look") && e.getBoundingClientRect().right > {width} + 1);
  wide.push(...[...page.querySelectorAll("figure .scroll")].filter(e => e.scrollWidth > e.clientWidth + 1));
  document.getElementById("found").append(
    `${{page.documentElement.scrollWidth}} ${{page.querySelectorAll("svg").length}} ` +
    wide.map(e => e.outerHTML.slice(0, 80)).join(" | ") + "\\n"); }} }};
</script>"""

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium to look at reports with")


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = gf.KernelRegressor(random_state=0, verbose=False).fit(X[::2], y[::2])
    first = model.report(X[1::2], y[1::2], folder / "regression.html", X_train=X[::2], y_train=y[::2], title="Diabetes")
    X, y = load_wine(return_X_y=True, as_frame=True)
    X.columns = [f"a_feature_with_a_name_that_is_far_too_long_for_a_phone_{name}" for name in X.columns]
    labels = np.array(["Barolo", "Grignolino of the second year, and more words", "Barbera"])[y]
    model = gf.KernelClassifier(random_state=0, verbose=False, tune=None, loss="logistic").fit(X[::2], labels[::2])
    second = model.report(X[1::2], labels[1::2], folder / "classification.html", X_train=X[::2], y_train=labels[::2])
    X, y = load_digits(return_X_y=True)
    labels = np.array([f"the digit that is called {digit}" for digit in y])
    model = gf.KernelClassifier(random_state=0, verbose=False, tune=None, n_centers=50).fit(X[:300], labels[:300])
    third = model.report(X[300:600], labels[300:600], folder / "ten.html")
    forecaster = gf.forecasting.KernelForecaster(
        n_centers=30, length_scale=1.0, decay=0.5, penalty=1e-4, random_state=0
    )
    names = ("A station with a long name on a hill by the sea", "B")
    stations = {name: make(1500, seed=seed, holes=[700]) for seed, name in enumerate(names)}
    options = {"horizons": [1, 3, 6], "memories": [2, 6, 24], "every": "7D", "forecaster": forecaster}
    fourth = gf.forecasting.study(stations, **options).report(folder / "forecasts.html", title="Wind at two stations")
    return first, second, third, fourth


def browse(folder, page, *flags):
    """What the browser wrote, after a look at its log: a page has nothing to say there."""
    command = [BROWSER, *FLAGS, f"--user-data-dir={folder / 'profile'}", *flags, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, re.findall(r"CONSOLE.*", done.stderr)


def picture(folder, page, name, size, *flags):
    path = folder / f"{name}.png"
    _, complaints = browse(folder, page, f"--window-size={size[0]},{size[1]}", f"--screenshot={path}", *flags)
    assert not complaints
    if os.environ.get("GYRFALCON_SCREENSHOTS"):
        kept = Path(os.environ["GYRFALCON_SCREENSHOTS"])
        kept.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, kept)
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"), dtype=int) @ [1 << 16, 1 << 8, 1]


def framed(folder, pages, width, height=4000):
    """A page that shows others as wide as a phone: windows themselves cannot be as narrow."""
    frames = "".join(
        f'<iframe src="{page.as_uri()}" width="{width}" height="{height}" frameborder="0"></iframe>' for page in pages
    )
    path = folder / "frames.html"
    path.write_text(CHECK.format(frames=frames, width=width))
    return path


def test_light_and_dark_pictures_are_not_blank(reports, tmp_path):
    light = picture(tmp_path, reports[0], "desktop", (1100, 3600))
    dark = picture(tmp_path, reports[1], "dark", (1100, 3600), DARK)
    forecasts = picture(tmp_path, reports[3], "forecasts", (1100, 3600), DARK)
    for image in (light, dark, forecasts):
        assert len(np.unique(image)) > 200
        assert min(len(np.unique(part)) for part in np.array_split(image[:2400], 8)) > 20  # something everywhere
    assert np.median(light) > 0xE00000
    assert np.median(dark) < 0x400000


def test_nothing_is_wider_than_a_phone(reports, tmp_path):
    image = picture(tmp_path, framed(tmp_path, reports[1:2], PHONE, 2400), "phone", (PHONE, 2400))
    assert len(np.unique(image)) > 200
    document, complaints = browse(tmp_path, framed(tmp_path, reports, PHONE), "--dump-dom", "--window-size=1200,900")
    assert not complaints
    found = re.search(r'<pre id="found">(.*?)</pre>', document, re.S).group(1).strip().splitlines()
    assert len(found) == 4
    for line in found:
        width, drawn, *wide = line.split(" ", 2)
        assert int(width) <= PHONE, line
        assert int(drawn) >= 5
        assert not "".join(wide).strip(), line


def test_the_checks_can_fail(tmp_path):
    page = tmp_path / "bad.html"
    page.write_text("<!doctype html><div style='width:900px'>wide</div><script>console.error('bad')</script>")
    document, complaints = browse(tmp_path, framed(tmp_path, [page], PHONE), "--dump-dom")
    assert any("bad" in line for line in complaints)
    assert "900" in re.search(r'<pre id="found">(.*?)</pre>', document, re.S).group(1)
