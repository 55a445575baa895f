"""A fresh user's path in a real terminal: a messy table, the commands of README, and a report in a browser."""

import os
import re
import select
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gyrfalcon as gf

pty = pytest.importorskip("pty", reason="terminals are made as on Unix")

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
COMMANDS = [line for line in re.findall(r"^\$ gyrfalcon (.*)$", README, re.MULTILINE) if not line.startswith("demo")]
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PATIENCE = 300  # seconds after which a command that does not end has failed


def terminal(folder, line):
    """Run a command on a terminal of 100 columns; its exit code, and what the screen shows."""
    screen, side = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    words = [sys.executable, "-m", "gyrfalcon", *shlex.split(line)]
    process = subprocess.Popen(words, cwd=folder, env=environment, stdin=side, stdout=side, stderr=side)
    os.close(side)
    shown, began = b"", time.monotonic()
    try:
        while time.monotonic() - began < PATIENCE:
            if select.select([screen], [], [], 0.2)[0]:
                try:
                    piece = os.read(screen, 1 << 16)
                except OSError:  # the other side has been closed
                    break
                if not piece:
                    break
                shown += piece
            elif process.poll() is not None:
                break
        return process.wait(timeout=10), re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    finally:
        process.kill()
        os.close(screen)


def messy(rows, seed):
    """Homes with dates, amounts, percentages, an accent, gaps and words where numbers should be."""
    random = np.random.default_rng(seed)
    days = random.integers(0, 900, rows)
    sold = pd.Timestamp("2022-01-01") + pd.to_timedelta(days, unit="D")
    area, city = random.uniform(30, 150, rows), random.choice(["Genève", "Rome", "Oslo"], rows)
    discount = random.uniform(0, 20, rows)
    price = area * np.where(city == "Rome", 30.0, 22.0) * (1 - discount / 100) + 2 * days
    return pd.DataFrame(
        {
            "id": [f"home-{seed}-{place}" for place in range(rows)],
            "sold": sold.strftime("%m/%d/%Y"),
            "area": [" " if place % 17 == 3 else f"{value:.1f}" for place, value in enumerate(area)],
            "city": city,
            "discount": [f"{value:.1f}%" for value in discount],
            "tax": ["unknown" if place % 60 == 5 else f"${value / 7:,.2f}" for place, value in enumerate(price)],
            "price": [f"${value:,.2f}" for value in price],
        }
    )


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """What the terminal showed of the commands of README, by command, and the folder they were run in."""
    folder = tmp_path_factory.mktemp("fresh")
    messy(260, 0).to_csv(folder / "homes.csv", index=False, encoding="cp1252")
    messy(40, 1).drop(columns="price").to_csv(folder / "new_homes.csv", index=False, encoding="cp1252")
    return folder, {line.split()[0]: terminal(folder, line) for line in COMMANDS}


def test_the_commands_of_readme_work_on_a_messy_table(session):
    folder, shown = session
    assert list(shown) == ["fit", "predict"]
    for command, (code, screen) in shown.items():
        assert code == 0, (command, screen)
        assert "Traceback" not in screen
        assert "error:" not in screen
    screen = " ".join(shown["fit"][1].split())
    for words in (
        "homes.csv is not UTF-8, and it is read as cp1252",
        "column 'sold' is read as dates, month/day/year, such as ",
        "column 'price' is read as numbers with commas between thousands, $, such as $",
        "column 'discount' is read as numbers with percent signs, such as ",
        "as missing, such as 'unknown'",
        "column 'id' is not used: text that is different in nearly every row",
        "regression of price",
        "written: homes.safetensors",
        "written: homes.html",
    ):
        assert words in screen
    known = gf.load(folder / "homes.safetensors").preprocessor_
    assert {rule.name: rule.kind for rule in known.rules_} == {
        "sold": "date", "area": "number", "city": "category", "discount": "number", "tax": "number"
    }  # fmt: skip
    assert float(re.search(r"r2\s+([\d.-]+)", screen)[1]) > 0.9
    assert "40 predictions of price" in shown["predict"][1]
    table = pd.read_csv(folder / "predictions.csv")
    assert list(table)[:6] == ["id", "sold", "area", "city", "discount", "tax"]
    assert list(table)[6:] == ["prediction", "lower", "upper"]
    truth = messy(40, 1)["price"].str.replace(r"[$,]", "", regex=True).astype(float)
    assert np.corrcoef(truth, table["prediction"])[0, 1] > 0.95
    assert ((table["lower"] < truth) & (truth < table["upper"])).mean() > 0.7


def test_mistakes_are_one_line(session):
    folder, _ = session
    for line, words in (
        (
            "fit homes.csv --target prize --out m.safetensors",
            "there is no column 'prize' to predict: the columns are id",
        ),
        ("predict none.safetensors new_homes.csv --out p.csv", "none.safetensors: No such file"),
    ):
        code, screen = terminal(folder, line)
        assert code == 1
        assert words in " ".join(screen.split())
        assert "Traceback" not in screen


@pytest.mark.skipif(BROWSER is None, reason="no Chromium to look at reports with")
def test_the_report_in_a_browser(session, tmp_path):
    folder, _ = session
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    flags += [f"--user-data-dir={tmp_path}/profile", "--virtual-time-budget=2000", "--dump-dom"]
    page = subprocess.run(
        [BROWSER, *flags, f"file://{folder}/homes.html"], capture_output=True, text=True, timeout=120, check=True
    ).stdout
    assert "price of homes.csv" in page
    for words in ("R²", "RMSE", "Learning curve", "sold", "Rome", "gyrfalcon fit homes.csv"):
        assert words in page
    assert 'role="alert"' not in page
