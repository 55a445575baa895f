"""Does solver="auto" take the faster solver? Direct and Falkon, timed over a grid, beside the one that is chosen."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np
import torch

import gyrfalcon as gf
from gyrfalcon.solvers import LeastSquares, Record, choose, solve

from . import THREADS, machine, report
from .timing import race, timed

PENALTY = 1e-6
TARGET = 1.10
JUDGED_CENTERS = 500
SOLVERS = ("direct", "falkon")


@dataclass(frozen=True)
class Settings:
    """The grid; configurations that would take too long are left out, those of fewest entries come first."""

    rows: tuple[int, ...]
    centers: tuple[int, ...]
    features: tuple[int, ...]
    outputs: tuple[int, ...]
    dtypes: tuple[str, ...]
    seconds: float  # after which what is left is not measured
    largest: float  # n·m·(20 + d), about what a pass costs, beyond which nothing is measured
    rounds: int
    patience: float


FULL = Settings(
    rows=(2_000, 10_000, 50_000, 200_000),
    centers=(100, 250, 500, 1000, 2000),
    features=(3, 30, 300),
    outputs=(1, 10),
    dtypes=("float32", "float64"),
    seconds=560,
    largest=5e9,
    rounds=2,
    patience=3,
)
QUICK = Settings(
    rows=(2_000, 10_000),
    centers=(100, 500),
    features=(3, 30),
    outputs=(1,),
    dtypes=("float32", "float64"),
    seconds=50,
    largest=1e9,
    rounds=2,
    patience=1,
)


@dataclass(frozen=True)
class Size:
    n: int
    m: int
    d: int
    t: int
    dtype: str

    @property
    def cost(self) -> float:
        return float(self.n * self.m * (20 + self.d))


@dataclass(frozen=True)
class Row:
    """Seconds of each solver, in all and by part, and which was chosen."""

    size: Size
    seconds: dict[str, float]
    parts: dict[str, dict[str, float]]
    iterations: int
    converged: bool
    pick: str
    reason: str
    ratio: float  # time of the pick over the best
    rounds: int
    disturbed: list[str]


def run(quick: bool) -> None:
    settings = QUICK if quick else FULL
    described = machine.describe()
    print(machine.headline(described), legend(settings), HEADER, sep="\n")
    end = time.perf_counter() + settings.seconds
    rows: list[Row] = []
    left_out: list[Size] = []
    for size in sizes(settings):
        if size.cost > settings.largest or time.perf_counter() > end:
            left_out.append(size)
            continue
        rows.append(measure(size, settings))
        print(line(rows[-1]), flush=True)
        content = {
            "settings": asdict(settings),
            "rows": [asdict(row) for row in rows],
            "left_out": [asdict(size) for size in left_out],
        }
        report.write_json(report.FOLDER / "choice.json", {"machine": described, **content})
    print(f"\n{summary(rows, left_out)}\nWritten: {report.FOLDER / 'choice.json'}")


def sizes(settings: Settings) -> Iterator[Size]:
    """Those that are judged first, then by cost; no more centers than half the rows."""
    grid = itertools.product(settings.rows, settings.centers, settings.features, settings.outputs, settings.dtypes)
    made = (Size(*values) for values in grid)
    yield from sorted((s for s in made if 2 * s.m <= s.n), key=lambda s: (s.m != JUDGED_CENTERS, s.cost))


def measure(size: Size, settings: Settings) -> Row:
    X, Y = _data(size)
    records: dict[str, Record] = {}

    def problem() -> LeastSquares:
        kernel = gf.kernels.Gaussian(float(np.sqrt(size.d)))
        return LeastSquares(gf.KernelMatrix(kernel, X, X[: size.m].clone()), Y, PENALTY, intercept=True)

    def run_solver(name: str) -> None:
        records[name] = solve(problem(), name).record

    chosen, reason = choose(problem())
    pick = chosen.name
    contenders = [timed(name, partial(run_solver, name), 1e9, least=0) for name in SOLVERS]
    found = race(contenders, settings.rounds, settings.patience)
    seconds = {name: found[name] for name in SOLVERS}
    if pick not in seconds:
        raise AssertionError(f"the choice was {pick!r}, which is not among {sorted(seconds)}")
    return Row(
        size=size,
        seconds=seconds,
        parts={name: records[name].seconds for name in SOLVERS},
        iterations=records["falkon"].iterations,
        converged=records["falkon"].converged,
        pick=pick,
        reason=reason,
        ratio=seconds[pick] / min(seconds.values()),
        rounds=found.rounds,
        disturbed=found.disturbed,
    )


def _data(size: Size) -> tuple[torch.Tensor, torch.Tensor]:
    """Normal points; outputs are waves of different lengths along different directions, with noise."""
    generator = torch.Generator().manual_seed(0)
    dtype = getattr(torch, size.dtype)
    X = torch.randn(size.n, size.d, generator=generator, dtype=dtype)
    directions = torch.randn(size.d, size.t, generator=generator, dtype=dtype)
    directions /= directions.norm(dim=0)
    waves = torch.sin(X @ directions * torch.linspace(1, 2, size.t, dtype=dtype))
    return X, waves + 0.1 * torch.randn(size.n, size.t, generator=generator, dtype=dtype)


def legend(settings: Settings) -> str:
    return (
        f"\nChoice: seconds of solvers.Direct and solvers.Falkon (default tolerance), penalty {PENALTY:g}, with "
        f"intercept, Gaussian kernel of length scale √d, a smooth target plus noise, {THREADS} threads; best of "
        f"{settings.rounds} interleaved rounds or more.\n"
        f"ratio: time of what solvers.choose picks over the best; asked: at most {TARGET} at m = "
        f"{JUDGED_CENTERS}. *: other processes were busy, the row is not judged."
    )


HEADER = (
    f"\n{'':7} {'n':>7} {'m':>5} {'d':>4} {'t':>3} | {'direct':>8} {'falkon':>8} {'iterations':>10} | {'pick':>7} ratio"
)


def line(row: Row) -> str:
    size = row.size
    verdict = "" if row.disturbed else "met" if row.ratio <= TARGET else "MISSED"
    unfinished = "" if row.converged else "+"
    return (
        f"{size.dtype} {size.n:>7} {size.m:>5} {size.d:>4} {size.t:>3} | {row.seconds['direct']:8.4f} "
        f"{row.seconds['falkon']:8.4f} {f'{row.iterations}{unfinished}':>10} | {row.pick:>7} {row.ratio:5.2f} {verdict}"
        f"{' *' if row.disturbed else ''}"
    )


def summary(rows: Sequence[Row], left_out: Sequence[Size]) -> str:
    lines = []
    judged = [row for row in rows if row.size.m == JUDGED_CENTERS]
    for name, some in ((f"m = {JUDGED_CENTERS}", judged), ("all", rows)):
        worst = max(some, key=lambda row: row.ratio)
        quiet = [row for row in some if not row.disturbed]
        within = sum(row.ratio <= TARGET for row in some)
        verdict = _verdict([row.ratio for row in quiet])
        lines.append(
            f"{name}: the pick is within {TARGET:.2f} of the best in {within} of {len(some)}; worst {worst.ratio:.2f} "
            f"({worst.size.dtype}, n = {worst.size.n:,}, m = {worst.size.m}, d = {worst.size.d}, t = {worst.size.t}); "
            f"undisturbed: {len(quiet)}, {verdict}"
        )
    if left_out:
        lines.append(f"Left out for their time: {len(left_out)} of {len(left_out) + len(rows)} configurations")
    return "\n".join(lines)


def _verdict(ratios: Sequence[float]) -> str:
    return "none to judge" if not ratios else "met" if max(ratios) <= TARGET else "MISSED"
