"""The product K(X, C) @ V beside PyTorch, NumPy and KeOps, and beside the least it could cost here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from . import THREADS, roofline
from .contenders import (
    HAS_KEOPS,
    Problem,
    gyrfalcon_product,
    keops_product,
    numpy_choices,
    torch_choices,
    tune,
)
from .timing import timed

CENTERS = 2000
TORCH_FINALISTS = 2  # ways that go from the tuning on some rows to the race on all
ROOFLINE_TARGET = 0.75  # wherever d is at least 10
# The ratios over PyTorch that the engine was asked to reach, by d.
_FLOAT64_TARGETS = {3: 2.7, 10: 2.3, 30: 1.8, 90: 1.6, 784: 1.1}
TARGETS = {
    ("float32", 1): {3: 4.2, 10: 3.3, 30: 2.2, 90: 1.6, 784: 1.1},
    ("float32", 10): {3: 3.3, 10: 2.8, 30: 2.0, 90: 1.7, 784: 1.15},
    ("float64", 1): _FLOAT64_TARGETS,
    ("float64", 10): _FLOAT64_TARGETS,
}
_TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-10}


@dataclass(frozen=True)
class Settings:
    """How much to run. Times are per entry of K, so peers and d = 784 may have fewer rows."""

    rows: int = 100_000
    rows_if_wide: int = 10_000  # where d is 784
    numpy_rows: int = 20_000
    keops_rows: int = 5_000
    tuning_rows: int = 8_192
    gram_rows: int = 20_000
    features: tuple[int, ...] = (3, 10, 30, 90, 784)
    outputs: tuple[int, ...] = (1, 10)
    dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.float64)
    rounds: int = 5
    seconds: float = 330.0  # after which disturbed rows get no second chance
    patience: float = 25.0  # seconds for one configuration before it is cut short, or while others disturb it

    def rows_for(self, d: int) -> int:
        return self.rows_if_wide if d >= 500 else self.rows


FULL = Settings()
QUICK = Settings(
    rows=10_000,
    rows_if_wide=4_000,
    numpy_rows=2_000,
    keops_rows=1_000,
    tuning_rows=2_048,
    gram_rows=4_000,
    features=(3, 30),
    outputs=(1,),
    seconds=25.0,
    patience=4.0,
)


@dataclass(frozen=True)
class Row:
    """One configuration: nanoseconds per entry of K, the best of some rounds."""

    dtype: str
    d: int
    t: int
    n: int
    m: int
    rounds: int
    gyrfalcon_ns: float
    torch_ns: float
    torch_choice: str
    numpy_ns: float
    numpy_choice: str
    keops_ns: float | None
    ratio_torch: float
    ratio_numpy: float
    ratio_keops: float | None
    target_torch: float | None
    target_met: bool | None
    gemm_gflops: float
    exp_ns: float
    torch_exp_ns: float
    roofline_ns: float
    roofline_fraction: float
    roofline_met: bool | None
    error: float
    torch_error: float
    disturbed: list[str]


def measure(settings: Settings) -> Iterator[Row]:
    """The rows of the table, one by one."""
    for dtype in settings.dtypes:
        for t in settings.outputs:
            for d in settings.features:
                yield measure_row(settings, str(dtype).removeprefix("torch."), d, t)


def measure_row(settings: Settings, name: str, d: int, t: int) -> Row:
    dtype: torch.dtype = getattr(torch, name)
    problem = Problem.make(settings.rows_for(d), CENTERS, d, t, dtype)
    n = len(problem.X)
    # A quarter of the rows where an entry is dear: there, blocks matter little and tuning would take longest.
    few = problem.head(min(n, settings.tuning_rows // (4 if d >= 500 else 1)))
    finalists = tune(torch_choices(), few, TORCH_FINALISTS, settings.patience / 4)
    (numpy_best,) = tune(numpy_choices(), few.head(settings.tuning_rows // 4), 1, settings.patience / 4)

    numpy_problem, keops_problem = (
        problem.head(settings.numpy_rows),
        problem.head(settings.keops_rows // (5 if d >= 500 else 1)),
    )
    runs: dict[str, tuple[Callable[[], object], Problem]] = {
        "gyrfalcon": (gyrfalcon_product(problem), problem),
        "NumPy": (numpy_best.prepare(numpy_problem), numpy_problem),
    }
    runs |= {choice.label: (choice.prepare(problem), problem) for choice in finalists}
    if HAS_KEOPS:
        runs["KeOps"] = (keops_product(keops_problem), keops_problem)
    errors = {who: size.error(run()) for who, (run, size) in runs.items()}
    for who, error in errors.items():
        if error > _TOLERANCE[dtype]:
            raise AssertionError(f"{who} is wrong by {error:.1e} for d = {d}, t = {t}, {name}: nothing to compare")

    contenders = [timed(who, run, size.entries) for who, (run, size) in runs.items()]
    found = roofline.race_with_peaks(contenders, dtype, settings.rounds, settings.patience)
    ours, keops = found["gyrfalcon"], found.get("KeOps")
    torch_best = min((choice.label for choice in finalists), key=found.__getitem__)
    target, bound = TARGETS[name, t].get(d), roofline.bound_ns(found, d, t)
    return Row(
        dtype=name,
        d=d,
        t=t,
        n=n,
        m=CENTERS,
        rounds=found.rounds,
        gyrfalcon_ns=ours,
        torch_ns=found[torch_best],
        torch_choice=torch_best,
        numpy_ns=found["NumPy"],
        numpy_choice=numpy_best.label,
        keops_ns=keops,
        ratio_torch=found[torch_best] / ours,
        ratio_numpy=found["NumPy"] / ours,
        ratio_keops=keops / ours if keops else None,
        target_torch=target,
        target_met=None if target is None or found.disturbed else found[torch_best] / ours >= target,
        gemm_gflops=roofline.gemm_gflops(found),
        exp_ns=roofline.exponential_ns(found),
        torch_exp_ns=found[roofline.TORCH_EXP],
        roofline_ns=bound,
        roofline_fraction=bound / ours,
        roofline_met=None if d < 10 or found.disturbed else bound / ours >= ROOFLINE_TARGET,
        error=errors["gyrfalcon"],
        torch_error=errors[torch_best],
        disturbed=found.disturbed,
    )


def legend(settings: Settings) -> str:
    keops = f"at most {settings.keops_rows:,}" if HAS_KEOPS else "not installed"
    wide = f" ({settings.rows_if_wide:,} for d = 784)" if 784 in settings.features else ""
    return (
        f"K(X, C) @ V, Gaussian kernel, m = {CENTERS}, n = {settings.rows:,}{wide}, {THREADS} threads.\n"
        f"Nanoseconds per entry of K, the best of interleaved rounds: {settings.rounds}, more while other work "
        "disturbs them, fewer if time runs out.\n"
        f"Per-entry times do not depend on n, so NumPy runs on at most {settings.numpy_rows:,} rows; KeOps: {keops}.\n"
        "Timed: the product alone. Not timed, for anyone: the making of KernelMatrix, of norms and of augmented "
        "copies.\n"
        "gyrfalcon: cache=False. PyTorch: the best of 15 blocked ways (5 block sizes × 3 formulations): all tried on "
        f"{settings.tuning_rows:,} rows, the {TORCH_FINALISTS} best raced on all. NumPy: the best of 3 block sizes.\n"
        "roofline: 2 (d + t) flop at this run's best torch.mm speed, plus one exponential (gyrfalcon's own, on data in "
        "the first cache, one thread, divided by the threads).\n"
        "*: other processes took CPU time even during the best turn of someone: the row may be off, and is not judged."
    )


HEADER = (
    f"{'':7} {'d':>4} {'t':>3} | {'gyrfalcon':>9} {'PyTorch':>8} {'NumPy':>7} {'KeOps':>7} | {'×PyTorch':>8} "
    f"{'asked':>5} {'':6} | {'×NumPy':>6} {'×KeOps':>6} | {'bound':>6} {'roofline':>8} {'':6} | "
    f"{'GFLOP/s':>7} {'exp':>6} {'torch.exp':>9} | rounds"
)


VERDICT = {True: "met", False: "MISSED", None: ""}


def line(row: Row) -> str:
    return (
        f"{row.dtype} {row.d:>4} {row.t:>3} | {row.gyrfalcon_ns:9.3f} {row.torch_ns:8.3f} {row.numpy_ns:7.3f} "
        f"{_or_dash(row.keops_ns, '7.2f')} | {row.ratio_torch:8.2f} {_or_dash(row.target_torch, '5.2f')} "
        f"{VERDICT[row.target_met]:6} | {row.ratio_numpy:6.2f} {_or_dash(row.ratio_keops, '6.1f')} | "
        f"{row.roofline_ns:6.3f} {row.roofline_fraction:8.0%} {VERDICT[row.roofline_met]:6} | "
        f"{row.gemm_gflops:7.1f} {row.exp_ns:6.3f} {row.torch_exp_ns:9.3f} | "
        f"{row.rounds}{' *' if row.disturbed else ''}"
    )


def _or_dash(value: float | None, form: str) -> str:
    return format("-", f">{form.split('.')[0]}") if value is None else format(value, form)


def summary(rows: Sequence[Row]) -> str:
    """What was asked and not reached, and what could not be judged."""

    def names(some: Iterable[Row], extra: Callable[[Row], str]) -> str:
        return "; ".join(f"{r.dtype} d = {r.d} t = {r.t}{extra(r)}" for r in some) or "none"

    slow = names((r for r in rows if r.target_met is False), lambda r: f" ({r.ratio_torch:.2f} of {r.target_torch})")
    low = names((r for r in rows if r.roofline_met is False), lambda r: f" ({r.roofline_fraction:.0%})")
    disturbed = names((r for r in rows if r.disturbed), lambda _: "")
    return (
        f"Ratio over PyTorch below what was asked: {slow}\n"
        f"Below {ROOFLINE_TARGET:.0%} of the roofline with d ≥ 10: {low}\n"
        f"Disturbed, so not judged: {disturbed}"
    )
