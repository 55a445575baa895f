"""Write seeds.md, the published numbers beside ours, from results/seeds/*.json: `python docs/seeds.py [--collect]`.

With `--collect`, the results of `python -m benchmarks seeds` are first copied from report/ to docs/results/. Pictures
are drawn from the same files.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
RESULTS = DOCS / "results" / "seeds"
PICTURES = DOCS / "_static"
DIGITS = 6
COMMAND = "python -m benchmarks seeds"
HEAD = f"""# Published numbers, and ours

Gyrfalcon implements two theses and several papers. This page puts the numbers that they publish, and that one machine
can check, beside what `{COMMAND}` measured. Each part can be run alone (`--only`), and the command goes on where it was
cut.

| verdict | meaning |
| --- | --- |
| as published | the two differ by no more than the error of the published number, or the margin of its unit |
| better, worse | they differ by more |
| same shape, other shape | data or sizes are others; the effect has the same direction, or not |
| not comparable | the data are not to be had, the seed has no number, or machines would be compared, not methods |

Times of rows are those of the fits behind them as each benchmark measures them, some by the clock on a busy machine:
they tell the order of magnitude. The line at the end of each part has its command, the machine, and the processor time
of the whole part.
"""
TITLES = {
    "eigenpro": "EigenPro 3: accuracy by the number of centers",
    "sgd": "Stochastic gradients on adult",
    "rare_classes": "A rare class among many",
    "simplex": "Simplex codes under margin conditions",
    "objectives": "Criteria of tuning",
    "koopman": "Koopman operators by sketching",
    "falkon_rate": "Falkon's million rows, by rate",
    "wind": "Wind",
    "segmentation": "On-line segmentation",
    "fields": "K-planes",
    "absent": "Numbers whose data are not to be had",
}
# What was found where ours is worse or has another shape.
WHY: dict[str, str] = {
    "sgd": """One pass over 1,000 rows is 800 steps, and the model after the last of them is noisy: over eight draws
of the rows with four orders each, its error with a constant step is 18.6 % and changes by 2.4 points from one order
of the same rows to the next, and by 1.0 from draw to draw. The thesis reports a deviation of 0.3, which neither the
order nor the draw leaves room for. The average of the iterates has 16.65 % (polynomial weights), as published, and
changes by 0.6; with a decaying step it has 18.6 %, which is still worse. The thesis analyzes both and does not say
which one its table shows. The rows here are those of the last iterate.""",
    "objectives": """The two criteria end close to each other, as in figure 4, but "better" means little on
pumadyn32nm: within 200 steps SGPR learned nothing there in either draw (an error of 1.00 is that of the mean), and
the proposed criterion in one of two, where the other objectives reach 0.22 to 0.23. As in the paper, hold-out is the
worst of the three unbiased objectives. Of the overfitting that the paper shows for GCV there is none on these five
sets, so that GCV and creg are ahead of both biased criteria on nearly all of them. The bound, which is the proposed
criterion as it is printed, is last on all five; [the page on tuning](tuning.md) says why.""",
    "rare_classes": """Plain models are as published, so the protocol is the same. Where recoding finds
fewer of the rare digit (50 and 100 rows), its strength differs: ours is the largest at which the frequent classes
lose no more than one standard error of the rows held out, which with 10 rows goes further than the thesis, and with 50
and 100 less far. The thesis does not print its strengths, nor how much of a loss it allows. With 5 rows the accuracy of
the rare digit deviates by 6 points from trial to trial in the thesis, and ten trials draw ten digits.""",
    "simplex": """All six curves bend the same way: between 40 and 200 rows, a further row comes to help two to
four times less. The exponential loss at the larger margin bends most, and is the one below the mark (R² 0.942 where
0.95 is asked). The penalty is the same for all n here; whether one that falls with n would make it straighter was
not tried.""",
    "segmentation": """Serial training learns detection from the trained proposals, and parallel training from anchors
and boxes near the instances. With 20 pictures the latter give the better boxes here; with 120, serial training gives
7 points of AP70 more (`python -m benchmarks vision serial`).""",
}
BEGIN, END = "<!-- ablations, by docs/seeds.py -->", "<!-- end -->"


def load() -> dict[str, dict[str, Any]]:
    paths = {name: RESULTS / f"{name}.json" for name in TITLES}
    return {name: json.loads(path.read_text("utf-8")) for name, path in paths.items() if path.exists()}


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{seconds:,.0f}\N{NO-BREAK SPACE}s" if seconds >= 100 else f"{seconds:.3g}\N{NO-BREAK SPACE}s"


def _common(part: dict[str, Any], key: str) -> str | None:
    """The text that every row has under a key, which is then said once instead of in a column."""
    texts = {row[key] for row in part["rows"] if row["ours"] is not None or key in ("source", "unit")}
    return texts.pop() if len(texts) == 1 else None


def table(part: dict[str, Any]) -> str:
    """The rows of a part. Columns in which all rows are alike, or empty, are left out."""
    rows = part["rows"]
    shown = {
        "source": _common(part, "source") is None,
        "data": _common(part, "data") is None and any(row["data"] for row in rows),
        "time": any(row["seconds"] is not None for row in rows),
    }
    alike = _common(part, "unit") is not None
    heads = ["number", "published", "ours", "verdict", *(name for name, there in shown.items() if there)]
    sides = ["---:" if head in ("published", "ours", "time") else "---" for head in heads]
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join(sides)} |"]
    for row in rows:
        words = row["what"] if alike or not row["unit"] else f"{row['what']} ({row['unit']})"
        cells = [words, _number(row["published"]), _number(row["ours"]), row["verdict"]]
        others = {
            "source": row["source"],
            "data": row["data"] or "–",
            "time": _time(row["seconds"]),
        }
        cells += [others[name] for name, there in shown.items() if there]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def section(name: str, part: dict[str, Any]) -> str:
    """Title, what all rows share, picture if there is one, table, and notes."""
    machine = part["machine"]
    where = f"{machine['cpu']}, {machine['instruction_set']}, threads: {machine['threads']}, {machine['date'][:10]}"
    shared = [_common(part, "source"), ("Data: " + data) if (data := _common(part, "data")) else None]
    shared.append(("Unit: " + unit) if (unit := _common(part, "unit")) else None)
    pieces = [f"## {TITLES[name]}", " ".join(f"{words}." for words in shared if words)]
    if (PICTURES / f"seeds_{name}.svg").exists():
        pieces.append(f"![{TITLES[name]}: published and ours](_static/seeds_{name}.svg)")
    pieces.append(table(part))
    pieces += [_sentence(note) for note in dict.fromkeys(row["note"] for row in part["rows"] if row["note"])]
    pieces += [WHY[name]] if name in WHY else []
    pieces.append(f"`{COMMAND} --only {name}` ({where}; {part['seconds']:.0f} s).")
    return "\n\n".join(filter(None, pieces))


def _sentence(note: str) -> str:
    return f"{note[0].upper()}{note[1:]}."


def page(found: dict[str, dict[str, Any]]) -> str:
    verdicts = [row["verdict"] for part in found.values() for row in part["rows"]]
    counts = ", ".join(f"{verdicts.count(kind)} {kind}" for kind in dict.fromkeys(sorted(verdicts)))
    summary = f"Of {len(verdicts)} numbers: {counts}.\n"
    if missing := [title for name, title in TITLES.items() if name not in found]:
        summary += f"\nNot run in full for this page: {'; '.join(missing)}.\n"
    return "\n".join([HEAD, summary, *(f"{section(name, part)}\n" for name, part in found.items())])


def ablations(found: dict[str, dict[str, Any]]) -> str:
    """The table of the page on radiance fields."""
    rows = [row for row in found.get("fields", {"rows": []})["rows"] if row["what"].startswith("PSNR, ")]
    lines = ["| PSNR in dB | published | here |", "| --- | ---: | ---: |"]
    lines += [f"| {row['what'].removeprefix('PSNR, ')} | {row['published']:.2f} | {row['ours']:.2f} |" for row in rows]
    return "\n".join(lines)


def with_ablations(text: str, found: dict[str, dict[str, Any]]) -> str:
    """The page on radiance fields with its table, which begins and ends with comments."""
    head, _, rest = text.partition(BEGIN)
    return f"{head}{BEGIN}\n\n{ablations(found)}\n\n{END}{rest.partition(END)[2]}"


def draw(found: dict[str, dict[str, Any]]) -> None:
    """The pictures of the parts that have one."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, rc_context

    with rc_context(
        {"svg.hashsalt": "gyrfalcon", "axes.spines.top": False, "axes.spines.right": False, "font.size": 9}
    ):
        for name, plot in (("eigenpro", _accuracies), ("rare_classes", _rare), ("fields", _bars)):
            if name in found:
                figure = plot(pyplot, found[name]["rows"])
                figure.savefig(PICTURES / f"seeds_{name}.svg", metadata={"Date": None})
                pyplot.close(figure)


OURS, THEIRS = "#d55e00", "#5c5c5c"


def _series(rows: list[dict[str, Any]], pattern: str) -> dict[str, list[tuple[float, float, float]]]:
    """Points (x, published, ours) by the name that a pattern with groups `name` and `x` finds in each row."""
    series: dict[str, list[tuple[float, float, float]]] = {}
    for row in rows:
        match = re.search(pattern, row["what"])
        if match and None not in (row["published"], row["ours"]):
            point = float(match["x"].replace(",", "")), row["published"], row["ours"]
            series.setdefault(match["name"], []).append(point)
    return series


def _lines(axes: Any, series: dict[str, list[tuple[float, float, float]]]) -> None:
    for (name, points), marker in zip(series.items(), "osD^", strict=False):
        x, published, ours = zip(*sorted(points), strict=True)
        axes.plot(x, published, marker=marker, linestyle="--", color=THEIRS, label=f"{name}, published")
        axes.plot(x, ours, marker=marker, color=OURS, label=f"{name}, ours")
    axes.set_xscale("log")
    axes.legend(frameon=False, fontsize=8)


def _accuracies(pyplot: Any, rows: list[dict[str, Any]]) -> Any:
    figure, axes = pyplot.subplots(figsize=(7, 3.4), layout="constrained")
    _lines(axes, _series(rows, r"^MNIST, (?P<name>.*), (?P<x>[\d,]+) centers"))
    axes.set(xlabel="centers", ylabel="MNIST, % right")
    return figure


def _rare(pyplot: Any, rows: list[dict[str, Any]]) -> Any:
    figure, both = pyplot.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for axes, kind in zip(both, ("all classes", "rare class"), strict=True):
        chosen = [row for row in rows if row["what"].endswith(kind)]
        _lines(axes, _series(chosen, r"^(?P<x>\d+) rows? of a rare digit, (?P<name>\w+):"))
        axes.set(xlabel="rows of the rare digit", ylabel=f"% right, {kind}")
    return figure


def _bars(pyplot: Any, rows: list[dict[str, Any]]) -> Any:
    chosen = [row for row in rows if "less" in row["what"] and row["ours"] is not None][::-1]
    figure, axes = pyplot.subplots(figsize=(7, 0.4 * len(chosen) + 1), layout="constrained")
    for shift, key, color, label in ((0.2, "published", THEIRS, "published"), (-0.2, "ours", OURS, "ours")):
        places = [place + shift for place in range(len(chosen))]
        axes.barh(places, [row[key] for row in chosen], height=0.38, color=color, label=label)
    axes.set_yticks(range(len(chosen)), [row["what"] for row in chosen])
    axes.axvline(0, color="#222222", linewidth=0.8)
    axes.set_xlabel("difference of PSNR in dB")
    axes.legend(frameon=False)
    return figure


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items() if name not in ("versions", "system")}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collect", action="store_true", help="copy new results from report/ first")
    if parser.parse_args().collect:
        RESULTS.mkdir(parents=True, exist_ok=True)
        for name in TITLES:
            if (path := DOCS.parent / "report" / "seeds" / f"{name}.json").exists():
                text = json.dumps(_rounded(json.loads(path.read_text("utf-8"))), indent=1, ensure_ascii=False)
                (RESULTS / path.name).write_text(text + "\n", encoding="utf-8")
    found = load()
    draw(found)
    (DOCS / "seeds.md").write_text(page(found), encoding="utf-8")
    fields = DOCS / "fields.md"
    fields.write_text(with_ablations(fields.read_text("utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main()
