"""Write performance.md from measurements: `python docs/performance.py`.

With `--collect`, new measurements are first copied from report/ to docs/results/*.json. These files are in the
repository, so that anyone can see where a number on the page or in README comes from. A test checks that they agree.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
REPORT = DOCS.parent / "report"
DIGITS = 10  # significant digits; many more than are shown, so that rounding twice does not change the page
UNUSED = {
    "skipped",
    *("versions", "system", "load_average", "engine", "message", "parts", "rounds", "patience", "filters"),
    *(
        "torch_choice",
        "numpy_choice",
        "keops_ns",
        "ratio_keops",
        "target_torch",
        "target_met",
        "roofline_met",
        "target",
    ),
    *("gemm_gflops", "exp_ns", "torch_exp_ns", "torch_error", "torch_ns", "numpy_ns", "roofline_ns", "gram"),
    *("iterations", "default_iterations", "accuracies", "passes", "busy", "others", "along"),
}
HEAD = """# Performance

Every number on this page was measured. The command below each table repeats the measurement, and the JSON files in
`docs/results` contain the results. Different tables were measured at different times on a shared machine. Within a
table, the contenders took turns. A note says if other programs used the machine at the same time.
"""


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Markdown, the first column on the left."""
    head = list(head)
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def size(count: float) -> str:
    return f"{count / 1e6:,.0f} MB"


def regressor_rows(found: dict[str, Any]) -> list[str]:
    """The rows of README's table."""
    names = {"gyrfalcon": "`KernelRegressor`", "scikit-learn": "Nystroem + Ridge"}
    return [
        f"| {dtype}, {names[name]} | {fit['seconds'][name]:.1f} s | {run['extra_bytes'] / 1e6:.0f} MB "
        f"| {run['rmse']:.4f} |"
        for dtype, fit in found["fit"].items()
        for name, run in fit["alone"].items()
    ]


def regressor(found: dict[str, Any]) -> str:
    n, m = found["settings"]["n"], found["settings"]["m"]
    head = table(["", "fit", "memory beyond the data", "test RMSE"], [])
    gains = [
        f"In {dtype}, this is {fit['speed']:.1f} times the speed and {fit['memory']:.1%} of the memory."
        for dtype, fit in found["fit"].items()
    ]
    words = f"n = {n:,}, ten features, m = {m:,} centers. Kernel, penalty and number of centers are the same for both."
    return f"{words}\n\n" + "\n".join([head, *regressor_rows(found)]) + "\n\n" + " ".join(gains)


def product(found: dict[str, Any]) -> str:
    rows = [
        [
            f"{row['dtype']}, d = {row['d']}" + (f", {row['t']} vectors" if row["t"] > 1 else ""),
            f"{row['gyrfalcon_ns']:.2f}",
            f"{row['ratio_torch']:.2f}",
            f"{row['ratio_numpy']:.2f}",
            f"{row['roofline_fraction']:.0%}",
            f"{row['error']:.0e}",
        ]
        for row in found["rows"]
    ]
    head = ["", "ns per entry", "PyTorch / Gyrfalcon", "NumPy / Gyrfalcon", "of the roofline", "relative error"]
    words = (
        "Products K(X, C) V without storing K, with 2,000 centers. PyTorch and NumPy stand for the fastest of several\n"
        "blocked implementations with each. Ratios above one mean that Gyrfalcon is faster."
    )
    return f"{words}\n\n{table(head, rows)}"


def precision(found: dict[str, Any]) -> str:
    worst = max(row["plain_float32"][-1] / row["dense"] for row in found["rows"]) - 1
    penalties = found["settings"]["penalties"]
    ours = math.ceil(1e4 * (found["default"] - 1)) / 1e4
    return (
        f"For {len(found['rows'])} pairs of a length scale and a penalty, {max(penalties):g} to {min(penalties):g},\n"
        f"the test error of a float32 fit with default settings is at most {ours:.2%} above that of the dense float64\n"
        f"solution. A plain float32 Falkon is up to {worst:.0%} above it after a hundred iterations; ours takes\n"
        f"{found['time']['ratio']:.2f} times as long for as many. [How](precision.md)."
    )


def solver_race(found: dict[str, Any]) -> str:
    rows = []
    for row in found["rows"]:
        best = max(moment["accuracy"] for moment in row["moments"])
        near = next(moment for moment in row["moments"] if moment["accuracy"] >= best - 0.005)
        rows.append(
            [
                row["solver"],
                f"{row['centers']:,}",
                f"{best:.1%}",
                f"{near['cpu_seconds']:.1f} s",
                size(row["extra_bytes"]),
            ]
        )
    head = ["solver", "centers", "best accuracy", "CPU time to within 0.5 %", "memory"]
    return f"The same kernel, {found['n']:,} rows, ten classes.\n\n{table(head, rows)}"


def paths(found: dict[str, Any]) -> str:
    rows = [[cost["name"], f"{cost['cpu']:.1f} s"] for cost in found["costs"]]
    words = (
        f"A path of {found['sizes']} numbers of centers, up to {found['m']:,}, with {found['penalties']} penalties\n"
        f"each, for {found['n']:,} rows takes {found['ratio']['cpu']:.2f} times as long as one direct solve."
    )
    return f"{words}\n\n{table(['', 'CPU time'], rows)}"


def stream(found: dict[str, Any]) -> str:
    rows = [
        [
            f"{row['rows']:,}{'' if row['streamed'] else ', in memory'}",
            f"{row['seconds']:.1f} s",
            size(row["peak_bytes"]),
        ]
        for row in [found["in_memory"], *found["streamed"]]
    ]
    head = ["rows of a Parquet file", "fit", "peak memory of the process"]
    words = f"Nine features, 1,000 centers, float32. The time grows as n to the power {found['slope']:.2f}."
    return f"{words}\n\n{table(head, rows)}"


def sparse(found: dict[str, Any]) -> str:
    names = {
        "gyrfalcon": "Gyrfalcon: a product with K, which is never stored",
        "SciPy, as asked": "SciPy: only the entries of K, without norms and product",
        "SciPy, whole": "SciPy: the whole product, in blocks",
    }
    times = [[names[name], f"{seconds:.2f} s"] for name, seconds in found["seconds"].items()]
    rows = [[f"{int(features):,} features", size(count)] for features, count in found["extra_bytes"].items()]
    return f"{table(['', 'time'], times)}\n\n{table(['', 'memory beyond the data'], rows)}"


def mnist(found: dict[str, Any]) -> str:
    rows = [
        [row["data"], row["method"], f"{row['m']:,}", f"{row['accuracy']:.2f} %", f"{row['published']:.2f} %"]
        for row in found["rows"]
    ]
    return table(["data", "method", "centers", "accuracy", "published"], rows)


def tabular(found: dict[str, Any]) -> str:
    names = ("gyrfalcon", "LightGBM", "HistGB", "CatBoost", "xRFM")
    rows = [
        [row["data"], f"{row['rows']:,}"]
        + [f"{row['errors'][who]:.4f}, {row['seconds'][who]:.2f} s" if who in row["errors"] else "–" for who in names]
        for row in found["rows"]
    ]
    return (
        "All models have their default settings, and the data are not preprocessed. The table shows the error and\n"
        "the CPU time of a fit on one thread. Errors are means over five splits, or of the source's test set: the\n"
        "root mean squared error over the standard deviation of the targets, the share of wrong classes or, where one\n"
        "of two classes has less than a tenth of the rows, one less the average precision. CatBoost and xRFM were\n"
        "fitted to the first split of small tables only. Defaults were chosen on training rows of the first eleven\n"
        "tables.\n\n"
        f"{table(['data', 'rows', 'Gyrfalcon', 'LightGBM', 'HistGradientBoosting', 'CatBoost', 'xRFM'], rows)}\n\n"
        f"{tables_won(found['rows'])}"
    )


def tables_won(rows: list[dict[str, Any]]) -> str:
    """In words: how often the error is no larger than that of the better of LightGBM and HistGradientBoosting."""
    parts = []
    for kind, classes in (("regression", False), ("classification", True)):
        won = [row["better"] for row in rows if row["classes"] == classes]
        parts.append(f"{sum(won)} of {len(won)} of {kind}")
    better = sum(row["better"] for row in rows)
    return (
        f"Gyrfalcon is no worse than the better of LightGBM and HistGradientBoosting on {better} of {len(rows)}\n"
        f"tables: {' and '.join(parts)}."
    )


def neighbors(found: dict[str, Any]) -> str:
    names = ("asked", "not asked", "LightGBM")
    rows = [
        [row["data"], f"{row['rows']:,}"]
        + [f"{row['errors'][who]:.4f}, {row['seconds'][who]:.2f} s" if who in row["errors"] else "–" for who in names]
        for row in found["rows"]
    ]
    return (
        "Synthetic tables whose rows come in groups, or have nothing to do with each other, as in the last two. The\n"
        "defaults [ask neighbors](tuning.md); the next column shows the same fit if they are not asked.\n\n"
        f"{table(['data', 'rows', 'Gyrfalcon', 'without asking', 'LightGBM'], rows)}"
    )


def gpytorch(found: dict[str, Any]) -> str:
    rows = [
        [name, f"{row['rows']:,}"]
        + [f"{row['errors'][who]:.3f}, {row['seconds'][who]:.0f} s" for who in ("gyrfalcon", "SGPR", "SVGP")]
        for name, row in found["sets"].items()
    ]
    settings = found["settings"]
    return (
        f"The same kernel, one length scale per feature, tuned by each; {settings['centers']:,} centers beside "
        f"{settings['sgpr']['inducing']:,} and {settings['svgp']['inducing']:,}\ninducing points. The table shows the "
        "root mean squared error over the standard deviation of the targets, and the time from rows to predictions.\n\n"
        f"{table(['data', 'rows', 'Gyrfalcon', 'SGPR', 'SVGP'], rows)}"
    )


SECTIONS: dict[str, tuple[str, str, Callable[[dict[str, Any]], str]]] = {
    "regressor": ("Ridge regression, compared with scikit-learn", "regressor", regressor),
    "product": ("Products", "product", product),
    "precision": ("float32", "precision", precision),
    "stream": ("Larger than memory", "stream", stream),
    "solver_race": ("Solvers", "solvers", solver_race),
    "paths": ("All numbers of centers and penalties", "paths", paths),
    "mnist": ("Images, compared with published accuracies", "mnist", mnist),
    "sparse": ("Sparse rows", "sparse", sparse),
    "tabular": ("Tables, compared with gradient boosting", "tabular", tabular),
    "neighbors": ("Tables whose rows come in groups", "neighbors", neighbors),
    "gpytorch": ("Sparse Gaussian processes in GPyTorch", "gpytorch", gpytorch),
}


def disturbed(value: Any) -> bool:
    """Whether others used the machine while any of it was measured."""
    if isinstance(value, dict):
        return bool(value.get("disturbed")) or any(map(disturbed, value.values()))
    return isinstance(value, list) and any(map(disturbed, value))


def page(folder: Path = DOCS / "results") -> str:
    """The page that the measurements in a folder make."""
    parts = [HEAD]
    for name, (title, command, words) in SECTIONS.items():
        found = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        machine = found["machine"]
        where = f"{machine['cpu']}, {machine['instruction_set']}, threads: {machine['threads']}, {machine['date'][:10]}"
        noise = "; others used the machine meanwhile" if disturbed(found) else ""
        parts.append(f"## {title}\n\n{words(found)}\n\n`python -m benchmarks {command}` ({where}{noise}).\n")
    return "\n".join(parts)


def collected(value: Any) -> Any:
    """What the page needs of a measurement, with fewer digits."""
    if isinstance(value, dict):
        return {name: collected(inner) for name, inner in value.items() if name not in UNUSED}
    if isinstance(value, list):
        return [collected(inner) for inner in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--collect", nargs="*", choices=SECTIONS, help="take these from report/ first; all if none is named"
    )
    arguments = parser.parse_args()
    names = [] if arguments.collect is None else arguments.collect or SECTIONS
    for name in names:
        found = json.loads((REPORT / f"{name}.json").read_text(encoding="utf-8"))
        text = json.dumps(collected(found), indent=1, ensure_ascii=False)
        (DOCS / "results" / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    (DOCS / "performance.md").write_text(page(), encoding="utf-8")
    print(f"Written: {DOCS / 'performance.md'}")


if __name__ == "__main__":
    main()
