"""Where files come from: a folder of the user's, a cache, or the network, in this order."""

from __future__ import annotations

import hashlib
import os
import warnings
from pathlib import Path

from .entry import Entry

VARIABLE = "GYRFALCON_DATA"


class DatasetError(OSError):
    """A data set that is not there, or not what it should be.

    Examples
    --------
    >>> import tempfile, gyrfalcon as gf
    >>> with tempfile.TemporaryDirectory() as empty:
    ...     try:
    ...         gf.datasets.load("letter", cache=empty)
    ...     except gf.datasets.DatasetError as error:
    ...         print("letter/data.npz" in str(error))
    True
    """


def placed(entry: Entry) -> Path | None:
    """The data.npz that the user has put in place, if there is one."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return None
    path = Path(folder) / entry.name / "data.npz"
    if not path.is_file():
        return None
    if entry.kind == "placed" and entry.sha256:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != entry.sha256:
            warnings.warn(
                f"{path} is not the file that benchmarks of {entry.name} were run with: results may differ",
                stacklevel=4,
            )
    return path


def download(entry: Entry, cache: str | os.PathLike[str] | None) -> Path:
    """The file at the entry's address, from the cache if it is there, with the checksum that it should have."""
    try:
        import pooch
    except ImportError as error:
        raise ImportError(f"{entry.name} is downloaded with pooch: pip install 'gyrfalcon[datasets]'") from error
    folder = Path(pooch.os_cache("gyrfalcon") if cache is None else cache)
    file = entry.url.rsplit("/", 1)[-1]
    logger = pooch.get_logger()
    before = logger.level
    logger.setLevel("WARNING")
    try:
        return Path(pooch.retrieve(entry.url, f"sha256:{entry.sha256}", file, folder))
    except ValueError as error:
        raise DatasetError(f"{entry.url} does not have the checksum {entry.sha256}: {error}") from error
    except OSError as error:
        raise DatasetError(
            f"{entry.name} could not be downloaded ({error}). Offline: fetch {entry.url} elsewhere and put it at "
            f"{folder / file}, or {instructions(entry)}"
        ) from error
    finally:
        logger.setLevel(before)


def instructions(entry: Entry) -> str:
    """How to put a data set in place by hand."""
    home = os.environ.get(VARIABLE)
    where = Path(home) / entry.name / "data.npz" if home else f"{entry.name}/data.npz in a folder that {VARIABLE} names"
    return (
        f"put arrays X and y, and X_test and y_test if the source has a test set, {entry.rows:,} × {entry.columns} in "
        f"all, at {where}"
    )
