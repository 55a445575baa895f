"""The page about data sets lists what the registry holds."""

from pathlib import Path

from gyrfalcon.datasets.registry import REGISTRY

PAGE = Path(__file__).parents[2] / "docs" / "datasets.md"


def row(entry):
    size = f"{entry.size / 1e6:.{1 if entry.size > 1e5 else 2}f} MB" if entry.size else "–"
    cells = (
        f"`{entry.name}`",
        entry.task,
        f"{entry.rows:,}",
        f"{entry.columns:,}",
        entry.kind,
        size,
        entry.split,
        entry.licence,
    )
    return f"| {' | '.join(cells)} | {entry.citation} |"


def test_the_table_is_the_registry():
    listed = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert listed == [row(entry) for entry in REGISTRY.values()]
