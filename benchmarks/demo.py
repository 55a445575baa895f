"""Under a minute: the product beside PyTorch and NumPy, as a table, a picture and a page."""

from __future__ import annotations

from . import figure, machine, page, product, report

SETTINGS = product.Settings(
    rows=20_000,
    rows_if_wide=3_000,
    numpy_rows=3_000,
    keops_rows=1_000,
    tuning_rows=4_096,
    outputs=(1,),
    patience=4.5,
)


def run() -> None:
    figure.require_matplotlib()
    described = machine.describe()
    print(machine.headline(described), product.legend(SETTINGS), sep="\n")
    print(f"\n{'':7} {'d':>4} | {'gyrfalcon':>9} {'PyTorch':>8} {'NumPy':>7} | {'×PyTorch':>8} | roofline")
    rows = []
    for row in product.measure(SETTINGS):
        rows.append(row)
        print(
            f"{row.dtype} {row.d:>4} | {row.gyrfalcon_ns:9.3f} {row.torch_ns:8.3f} {row.numpy_ns:7.3f} | "
            f"{row.ratio_torch:8.2f} | {row.roofline_fraction:8.0%}{' *' if row.disturbed else ''}",
            flush=True,
        )
    picture, home = report.FOLDER / "roofline.png", report.FOLDER / "index.html"
    report.write_product(report.PRODUCT, described, rows, [])
    figure.draw(rows, described, picture)
    page.write(home, rows, described, SETTINGS, picture)
    if any(row.disturbed for row in rows):
        print("*: other processes were busy; run it again on a quiet machine for figures to trust")
    print(f"\nThe report: {home.resolve()}\nAlso: {picture}, {report.PRODUCT}")
