"""`python -m benchmarks <command>`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from . import (
    adult,
    budget,
    checkpoints,
    choice,
    cliffs,
    dask_cluster,
    defaults,
    demo,
    feature_learning,
    fields,
    forecasting,
    gaussian_processes,
    gradient,
    gram,
    inverse_dynamics,
    koopman,
    machine,
    many_rows,
    mapped_pair,
    memory,
    mnist,
    neighbors,
    objectives,
    online,
    partition,
    paths,
    picture,
    planned,
    planning,
    precision,
    probabilities,
    product,
    random_features,
    regressor,
    report,
    seeds,
    simplex,
    small,
    solver_race,
    sparse,
    stream,
    tabular,
    tiled,
    tuning_step,
    vision,
)


def main() -> None:
    arguments = _parser().parse_args()
    machine.set_threads()
    started = time.perf_counter()
    match arguments.command:
        case "product":
            run_product(arguments.out, arguments.quick)
        case "gradient":
            gradient.run(arguments.quick)
        case "memory":
            memory.run()
        case "sparse":
            sparse.run()
        case "precision":
            precision.run(arguments.quick)
        case "regressor":
            regressor.run(arguments.quick)
        case "choice":
            choice.run(arguments.quick)
        case "checkpoints":
            checkpoints.run(arguments.quick)
        case "mnist":
            mnist.run(arguments.quick, arguments.penalty)
        case "objectives":
            objectives.run(arguments.quick)
        case "gpytorch":
            gaussian_processes.run(arguments.quick)
        case "tuning_step":
            tuning_step.run()
        case "tabular":
            tabular.run(arguments.quick, arguments.only)
        case "defaults":
            defaults.run(arguments.quick, arguments.only, arguments.splits)
        case "many_rows":
            many_rows.run(arguments.quick)
        case "neighbors":
            neighbors.run(arguments.quick)
        case "budget":
            budget.run(arguments.quick)
        case "small":
            small.run(arguments.quick)
        case "cliffs":
            cliffs.run(arguments.quick, arguments.only)
        case "partition":
            partition.run(arguments.quick)
        case "probabilities":
            probabilities.run(arguments.quick)
        case "paths":
            paths.run(arguments.quick)
        case "tiled":
            tiled.run(arguments.quick)
        case "mapped_pair":
            mapped_pair.run(arguments.size)
        case "stream":
            stream.run(arguments.rows, arguments.cache)
        case "plan":
            planning.run(arguments.quick, arguments.rows, arguments.cache)
        case "planned":
            planned.run(arguments.quick)
        case "dask":
            dask_cluster.run(arguments.rows)
        case "fields":
            fields.run(arguments.quick, arguments.part, arguments.seconds)
        case "features":
            feature_learning.run(arguments.quick)
        case "solvers":
            solver_race.run(arguments.quick)
        case "sgd":
            adult.run(arguments.quick)
        case "simplex":
            simplex.run(arguments.quick)
        case "random_features":
            random_features.run(arguments.quick)
        case "inverse_dynamics":
            inverse_dynamics.run(arguments.quick)
        case "koopman":
            koopman.run(arguments.quick, *_chosen(arguments))
        case "forecasting":
            forecasting.run(arguments.quick, *_chosen(arguments))
        case "online":
            online.run(arguments.quick)
        case "seeds":
            seeds.run(arguments.quick, arguments.only)
        case "vision":
            vision.run(arguments.quick, arguments.part)
        case "picture":
            picture.run()
        case "demo":
            demo.run(arguments.quick)
        case "all":
            run_product(report.PRODUCT, quick=False)
            memory.run()
            sparse.run()
            tuning_step.run()
            for benchmark in (gradient, precision, regressor, choice, mnist):
                benchmark.run(quick=False)
    if getattr(arguments, "quick", False):
        print("\n--quick: sizes so small that met and MISSED mean nothing")
    print(f"\n{arguments.command}: {time.perf_counter() - started:.0f} s")


def _chosen(arguments: argparse.Namespace) -> tuple[tuple[str, ...], ...]:
    """The one part that was asked for, as the argument of a benchmark that takes several."""
    return () if arguments.part == "all" else ((arguments.part,),)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What Gyrfalcon costs, beside its peers.")
    commands = parser.add_subparsers(dest="command", required=True)
    quick = argparse.ArgumentParser(add_help=False)
    quick.add_argument("--quick", action="store_true", help="small sizes, to try it: its numbers prove nothing")
    one = commands.add_parser(
        "product", parents=[quick], help="K(X, C) @ V: time per entry, ratios over peers, share of the roofline"
    )
    one.add_argument("--out", type=Path, default=report.PRODUCT, help="JSON file to write (default: %(default)s)")
    commands.add_parser(
        "gradient",
        parents=[quick],
        help="derivatives in centers and length scales, beside the product and autograd",
    )
    commands.add_parser("memory", help="peak memory of a product with two million rows; time against n")
    commands.add_parser("sparse", help="sparse points with a million features, beside SciPy")
    commands.add_parser("precision", parents=[quick], help="float32 beside float64 for small penalties: error and time")
    commands.add_parser("regressor", parents=[quick], help="KernelRegressor beside scikit-learn's Nystroem + Ridge")
    commands.add_parser("choice", parents=[quick], help="whether solver='auto' takes the faster solver, over a grid")
    commands.add_parser(
        "checkpoints", parents=[quick], help="fits killed at random moments and called again: whether bits are the same"
    )
    images = commands.add_parser(
        "mnist", parents=[quick], help="accuracy beside published numbers; data from the folder in $GYRFALCON_DATA"
    )
    images.add_argument("--penalty", type=float, default=mnist.PENALTY, help="(default: %(default)s)")
    data = "data from the folder in $GYRFALCON_DATA"
    commands.add_parser(
        "objectives", parents=[quick], help=f"test errors that each objective of tuning leads to; {data}"
    )
    commands.add_parser("gpytorch", parents=[quick], help=f"a tuned model beside GPyTorch's SGPR and SVGP; {data}")
    commands.add_parser("tuning_step", help="memory and time of one step of tuning on half a million rows")
    tables = commands.add_parser(
        "tabular", parents=[quick], help=f"estimators as they come beside gradient boosting; {data}"
    )
    tables.add_argument("--only", nargs="+", choices=tabular.TABLES, default=(), help="some tables, added to the file")
    commands.add_parser(
        "neighbors", parents=[quick], help="tables whose rows come in groups, with and without asking neighbors"
    )
    commands.add_parser(
        "many_rows", parents=[quick], help="errors and CPU time of defaults on synthetic tables of many rows"
    )
    commands.add_parser("planned", parents=[quick], help="CPU time of default fits beside what was planned for them")
    commands.add_parser("budget", parents=[quick], help="wall time of fits that have a time budget, over that budget")
    commands.add_parser("small", parents=[quick], help="iris, wine, breast cancer, digits and diabetes as they come")
    steep = commands.add_parser("cliffs", parents=[quick], help="problems at which fits used to take far too long")
    steep.add_argument("--only", help=f"some of them, with commas between: {', '.join(cliffs.PROBLEMS)}")
    ranked = commands.add_parser(
        "defaults", parents=[quick], help=f"alternatives of automatic tuning on development tables; {data}"
    )
    ranked.add_argument(
        "--only",
        default=[],
        type=lambda names: names.split(","),
        help=f"some of them, with commas between: {', '.join(defaults.ALTERNATIVES)}",
    )
    ranked.add_argument(
        "--splits", type=int, default=defaults.SPLITS, help="of each table in training and held-out rows"
    )
    commands.add_parser(
        "partition", parents=[quick], help=f"exact leaves beside more centers, and which settings are best; {data}"
    )
    commands.add_parser("probabilities", parents=[quick], help=f"log losses beside gradient boosting; {data}")
    commands.add_parser(
        "paths", parents=[quick], help="all numbers of centers and penalties beside one direct solve; early stopping"
    )
    commands.add_parser("tiled", parents=[quick], help="Cholesky and LAUUM of a file, beside LAPACK in memory")
    commands.add_parser("solvers", parents=[quick], help="falkon, eigenpro and direct solves with equal centers")
    commands.add_parser("sgd", parents=[quick], help=f"stochastic gradients beside published errors; {data}")
    commands.add_parser("simplex", parents=[quick], help="errors of simplex-coded classes under margins, as figures")
    commands.add_parser(
        "random_features", parents=[quick], help="random features: products beside PyTorch, ridge beside scikit-learn"
    )
    commands.add_parser("inverse_dynamics", parents=[quick], help=f"torques of simulated and real arms; {data}")
    motion = commands.add_parser(
        "koopman",
        parents=[quick],
        help=f"spectra that are known, forecasts, beside kooplearn and deeptime ($GYRFALCON_KOOPMAN_PEERS); {data}",
    )
    wind = commands.add_parser(
        "forecasting",
        parents=[quick],
        help=f"wind beside LightGBM, mlforecast and skforecast ($GYRFALCON_FORECASTING_PEERS); {data}",
    )
    for command, parts in ((motion, koopman.PARTS), (wind, forecasting.PARTS)):
        command.add_argument("part", nargs="?", choices=[*parts, "all"], default="all", help="(default: %(default)s)")
    commands.add_parser(
        "online",
        parents=[quick],
        help=f"recursive models beside river; rare and sorted classes; {data}",
    )
    seeing = commands.add_parser(
        "vision", parents=[quick], help=f"instances, pixels and a video, beside heads trained by gradients; {data}"
    )
    seeing.add_argument("part", nargs="?", choices=[*vision.PARTS, "all"], default="all", help="(default: %(default)s)")
    scenes = commands.add_parser(
        "fields", parents=[quick], help=f"radiance fields: quality, rays a second, ablations; {data}"
    )
    scenes.add_argument("part", nargs="?", choices=[*fields.PARTS, "all"], default="all", help="(default: %(default)s)")
    scenes.add_argument("--seconds", type=float, help="begin nothing after so much processor time; call again to go on")
    commands.add_parser("features", parents=[quick], help="length scales and input maps learned among noise")
    trips = argparse.ArgumentParser(add_help=False)
    trips.add_argument(
        "--rows", type=lambda text: int(float(text)), default=stream.ROWS[-1], help="(default: %(default)s)"
    )
    trips.add_argument("--cache", type=Path, default=stream.CACHE, help="folder for the files (default: %(default)s)")
    commands.add_parser(
        "stream", parents=[trips], help="a fit of rows that are read from a Parquet file, beside one in memory"
    )
    commands.add_parser(
        "plan", parents=[quick, trips], help="time and memory of fits as predicted and as measured, over a grid"
    )
    cluster = commands.add_parser("dask", help="a fit on two Dask workers of this machine, beside one of them")
    cluster.add_argument(
        "--rows", type=lambda text: int(float(text)), default=dask_cluster.ROWS, help="(default: %(default)s)"
    )
    pair = commands.add_parser(
        "mapped_pair", help="Falkon's triangles for 40,000 centers under 2 GB, in a file, and a few iterations"
    )
    pair.add_argument("size", nargs="?", choices=list(mapped_pair.CASES), default="full", help="(default: %(default)s)")
    everything = commands.add_parser(
        "seeds", parents=[quick], help=f"published numbers of the papers behind Gyrfalcon, beside ours; {data}"
    )
    everything.add_argument("--only", help=f"parts to run anew, with commas between them: {', '.join(seeds.PARTS)}")
    commands.add_parser("demo", parents=[quick], help="models and products beside their peers, as report/index.html")
    commands.add_parser("picture", help=f"the picture of README, from {picture.SOURCE}, as {picture.PICTURE}")
    commands.add_parser("all", help="all but objectives, gpytorch and the demo")
    return parser


def run_product(out: Path, quick: bool) -> None:
    settings = product.QUICK if quick else product.FULL
    end = time.perf_counter() + settings.seconds
    described = machine.describe()
    print(machine.headline(described), product.legend(settings), product.HEADER, sep="\n")
    rows: list[product.Row] = []
    grams: list[gram.GramRow] = []

    def show(line: str) -> None:  # and keep: whoever stops a long run keeps what it found
        report.write_product(out, described, rows, grams)
        print(line, flush=True)

    for row in product.measure(settings):
        rows.append(row)
        show(product.line(row))
    print("", gram.legend(settings), gram.HEADER, sep="\n")
    for pair in gram.measure(settings):
        grams.append(pair)
        show(gram.line(pair))
    if any(row.disturbed for row in rows) and time.perf_counter() < end:
        print("", "Disturbed rows again, while time allows:", product.HEADER, sep="\n")
    for place, row in enumerate(rows):
        if row.disturbed and time.perf_counter() < end:
            rows[place] = product.measure_row(settings, row.dtype, row.d, row.t)
            show(product.line(rows[place]))
    print(f"\n{product.summary(rows)}\nWritten: {out}")


if __name__ == "__main__":
    main()
