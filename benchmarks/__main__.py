"""`python -m benchmarks <command>`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from . import demo, gram, machine, memory, product, report, sparse


def main() -> None:
    arguments = _parser().parse_args()
    machine.set_threads()
    started = time.perf_counter()
    match arguments.command:
        case "product":
            run_product(arguments.out, arguments.quick)
        case "memory":
            memory.run()
        case "sparse":
            sparse.run()
        case "demo":
            demo.run()
        case "all":
            run_product(report.PRODUCT, quick=False)
            memory.run()
            sparse.run()
    print(f"\n{arguments.command}: {time.perf_counter() - started:.0f} s")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What Gyrfalcon costs, beside its peers.")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("product", help="K(X, C) @ V: time per entry, ratios over peers, share of the roofline")
    one.add_argument("--out", type=Path, default=report.PRODUCT, help="JSON file to write (default: %(default)s)")
    one.add_argument("--quick", action="store_true", help="fewer rows and dimensions, under 30 seconds")
    commands.add_parser("memory", help="peak memory of a product with two million rows; time against n")
    commands.add_parser("sparse", help="sparse points with a million features, beside SciPy")
    commands.add_parser("demo", help="a short run of product, with a picture, in report/")
    commands.add_parser("all", help="product, memory and sparse")
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
