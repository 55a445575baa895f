"""Koopman operators beside kooplearn and deeptime, which run in an environment of their own.

Its Python is named in $GYRFALCON_KOOPMAN_PEERS. All get the same frames, kernel, penalty and rank; Gyrfalcon also gets
the centers that kooplearn drew. Three questions have answers of their own:

- CPU seconds of a fit.
- The largest error of the first eigenvalues against the truth. Most of it is that of the sample, which all share; so
  the differences between libraries on the same frames are told with their standard error, over many samples.
- What a library adds to that: how far its eigenvalues are from those of the same regression with many more centers.

deeptime's exact method and regressions with many centers take long, and look at the first samples only.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gyrfalcon as gf
from gyrfalcon.dynamics import Koopman

from .koopman_systems import DECAY, PRINZ, lorenz, ornstein_uhlenbeck, prinz

Array = np.ndarray[Any, Any]

PEERS = "GYRFALCON_KOOPMAN_PEERS"
CENTERS, MANY_CENTERS, SMALL = 300, 1500, 2000
SAMPLES, CLOSELY = 24, 6  # of each system, and how many of them are looked at closely
SYSTEMS = ("Ornstein-Uhlenbeck", "Prinz")
FASTER = 3.0  # asked
EQUAL = 1e-6  # largest difference between eigenvalues of the same estimator


def measure(quick: bool) -> dict[str, Any]:
    python = os.environ.get(PEERS)
    if not python or not Path(python).exists():
        print(f"\npeers: left out, ${PEERS} does not name a Python that has kooplearn and deeptime")
        return {}
    problems = _problems(quick)
    theirs = _run_peers(python, problems)
    n = len(problems["Lorenz"]["X"])
    print(f"\nBeside {theirs['versions']}: n = {n:,}, m = {CENTERS}, RRR; deeptime exact on {SMALL:,} frames")
    columns = ("CPU-s: ours kooplearn deeptime", "error of λ₀…λ₃: ours kooplearn deeptime", "added: ours kooplearn")
    print("problem                " + "   ".join(columns))
    rows = {name: _row(name, problem, theirs[name]) for name, problem in problems.items()}
    ratios = [row["seconds"][1] / row["seconds"][0] for name, row in rows.items() if problems[name]["closely"]]
    print(f"  kooplearn's CPU over ours: {min(ratios):.1f} to {max(ratios):.1f} (asked {FASTER:.0f}) | "
          f"{verdict(min(ratios) >= FASTER)}")  # fmt: skip
    summaries = {system: _summary(system, rows) for system in SYSTEMS}
    same = max(row["exact"] for row in rows.values() if "exact" in row)
    print(f"  KRR with all {SMALL:,} frames as centers and deeptime's kernel EDMD, the same estimator: eigenvalues "
          f"{same:.1e} apart | {verdict(same <= EQUAL)}")  # fmt: skip
    return {"versions": theirs["versions"], "rows": rows, "summaries": summaries, "same_estimator": same}


def _problems(quick: bool) -> dict[str, dict[str, Any]]:
    frames, samples, closely = (3000, 3, 2) if quick else (20_001, SAMPLES, CLOSELY)
    found = {}
    common = {"rank": 10, "penalty": 1e-6, "centers": CENTERS}
    wells = prinz(frames, samples, 7)
    for seed in range(samples):
        walk = ornstein_uhlenbeck(frames, 1, seed)[0]
        own = common | {"closely": seed < closely}
        found[f"Ornstein-Uhlenbeck {seed}"] = {"X": walk, "length_scale": 1.0, "truth": DECAY ** np.arange(4)} | own
        found[f"Prinz {seed}"] = {"X": wells[seed], "length_scale": 0.2, "truth": PRINZ} | own
    X = lorenz(frames + 2000)
    X = (X - X[:frames].mean(0)) / X[:frames].std(0)
    own = common | {"rank": 25, "closely": True}
    found["Lorenz"] = {"X": X[:frames], "test": X[frames:], "length_scale": 2.0, "truth": None} | own
    return found


def _row(name: str, problem: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """One line of the table."""
    X, kernel = problem["X"], gf.kernels.Gaussian(problem["length_scale"])
    settings = {"kernel": kernel, "rank": problem["rank"], "penalty": problem["penalty"]}
    centers = X[theirs["kooplearn"]["centers"]]
    turns = 3 if problem["closely"] else 1
    model, seconds = timed(lambda: solved(Koopman(centers=centers, n_centers=CENTERS, **settings).fit(X)), turns)
    row: dict[str, Any] = {"seconds": [seconds, *(peer["seconds"] for peer in theirs.values())]}
    shown = f"  {name:>20}: " + "".join(f"{value:10.3f}" for value in row["seconds"]).ljust(30)
    if problem["truth"] is None:
        test = problem["test"]
        row["one_step"] = [float(np.sqrt(np.mean(np.square(model.predict(test[:-1]) - test[1:]))))]
        row["one_step"].append(theirs["kooplearn"]["error"])
        print(f"{shown}   one step: {row['one_step'][0]:.4f} and {row['one_step'][1]:.4f}")
        return row
    spectra = [model.eigenvalues_[:4], *(np.array(peer["eigenvalues"])[:4] @ [1, 1j] for peer in theirs.values())]
    row["errors"] = [float(np.abs(values - problem["truth"]).max()) for values in spectra]
    row["apart"] = float(np.abs(spectra[0] - spectra[1]).max())
    shown += "".join(f"{value:10.4f}" for value in row["errors"]).ljust(30)
    if problem["closely"]:
        row |= _closely(X, settings, spectra)
        shown += "".join(f"{value:10.1e}" for value in row["added"])
    print(shown, flush=True)
    return row


def _closely(X: Array, settings: dict[str, Any], spectra: list[Array]) -> dict[str, Any]:
    """Distances from a regression with many centers, and from deeptime where the estimator is the same."""
    many = solved(Koopman(n_centers=MANY_CENTERS, random_state=1, **settings).fit(X)).eigenvalues_[:4]
    few, kernel = X[: SMALL + 1], settings["kernel"]
    exact = Koopman("krr", kernel, centers=few[:-1], n_centers=SMALL, penalty=settings["penalty"]).fit(few)
    return {
        "added": [float(np.abs(values - many).max()) for values in spectra[:2]],
        "exact": float(np.abs(_upper(exact.eigenvalues_[:4]) - _upper(spectra[2])).max()),
    }


def _summary(system: str, rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Means over samples, with standard errors of the means of differences on the same frames."""
    chosen = [row for name, row in rows.items() if name.startswith(system)]
    found: dict[str, Any] = {"apart": max(row["apart"] for row in chosen)}
    for place, peer in ((1, "kooplearn"), (2, "deeptime")):
        pairs = [(row["errors"][0], row["errors"][place]) for row in chosen if len(row["errors"]) > place]
        ours, others = np.array(pairs).T
        more = others - ours
        mean, noise = float(more.mean()), float(more.std(ddof=1) / np.sqrt(len(more)))
        found[peer] = {"ours": ours.tolist(), "theirs": others.tolist(), "more": [mean, noise]}
        print(f"  {system}, {len(more)} samples: mean error {ours.mean():.5f} (± {ours.std(ddof=1):.4f} from sample to "
              f"sample), {others.mean():.5f} of {peer}: {mean:+.5f} ± {noise:.5f}, ours the smaller in "
              f"{int((more > 0).sum())}; not larger in the mean | {verdict(mean >= -2 * noise)}")  # fmt: skip
    added = np.array([row["added"] for row in chosen if "added" in row])
    closer = int((added[:, 0] <= added[:, 1]).sum())
    print(f"    with the same centers, eigenvalues of kooplearn are up to {found['apart']:.1e} from ours; added by few "
          f"centers and rounding: largest {added[:, 0].max():.1e} and {added[:, 1].max():.1e}, ours the smaller in "
          f"{closer} of {len(added)} | {verdict(closer == len(added))}")  # fmt: skip
    return found | {"added": added.max(0).tolist(), "closer": closer}


def _upper(values: Array) -> Array:
    """Eigenvalues in an order of their own; of a complex pair either one may be among the first."""
    return np.sort_complex(values.real + 1j * np.abs(values.imag))


def solved(model: Koopman) -> Koopman:
    """The model with its operator, which is made when it is first asked for."""
    _ = model.operator_
    return model


def timed(call: Callable[[], Any], turns: int = 3) -> tuple[Any, float]:
    """What a call returns, and its CPU seconds, the least of some turns."""
    times = []
    for _ in range(turns):
        start = time.process_time()
        found = call()
        times.append(time.process_time() - start)
    return found, min(times)


def verdict(met: bool) -> str:
    return "met" if met else "MISSED"


def _run_peers(python: str, problems: dict[str, dict[str, Any]]) -> dict[str, Any]:
    arrays = {
        f"{name}/{key}": np.asarray(value)
        for name, problem in problems.items()
        for key, value in problem.items()
        if value is not None and key != "truth"
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "problems.npz")
        np.savez(path, **arrays)
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        script = Path(__file__).with_name("koopman_peers.py")
        done = subprocess.run(
            [python, str(script), str(path)], capture_output=True, text=True, check=True, env=os.environ | threads
        )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
