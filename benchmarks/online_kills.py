"""Streams that are killed at random moments and begun again: whether the bits are the same."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import gyrfalcon as gf

PROGRAM = """
import sys, time, numpy as np
from gyrfalcon.online import RecursiveClassifier

def stream():
    rng = np.random.default_rng(0)
    for place in range(400):
        X, y = rng.normal(size=(25, 30)), rng.integers(1 + place // 40, size=25)
        if place == 1:
            print("begun", flush=True)
        time.sleep(0.003)
        yield X, y

model = RecursiveClassifier(recode="auto", forgetting=0.9999).fit_stream(stream(), checkpoint=sys.argv[1], every=200)
model.save(sys.argv[2])
"""


def measure(quick: bool) -> dict[str, Any]:
    trials = 3 if quick else 20
    dice = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder, "whole.safetensors")
        begin = time.perf_counter()
        _run(folder, "whole", None)
        seconds = time.perf_counter() - begin
        same = 0
        for trial in range(trials):
            killed = _run(folder, str(trial), dice.uniform(0.02, 1.0))
            _run(folder, str(trial), None)
            same += killed and _content(Path(folder, f"{trial}.safetensors")) == _content(whole)
    print(f"\nStreams killed and begun again ({seconds:.1f} s each): {same} of {trials} end with the same bits")
    return {"kills": {"trials": trials, "same": same}}


def _run(folder: str, name: str, delay: float | None) -> bool:
    """Whether the process was killed after so many seconds of its stream."""
    command = [sys.executable, "-c", PROGRAM, f"{folder}/{name}", f"{folder}/{name}.safetensors"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        if delay is not None:
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
        return process.wait() == -signal.SIGKILL


def _content(path: Path) -> Any:
    """All that the model knows; the file itself has its metadata in any order."""
    from gyrfalcon.persistence import parse

    gf.load(path)
    description, arrays = parse(path.read_bytes())
    return description, {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()}
