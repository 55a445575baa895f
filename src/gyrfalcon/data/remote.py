"""Files at addresses that fsspec knows, such as s3://bucket/trips/*.parquet, copied to this machine on request."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from .atomic import replacing

STAMPS = ".gyrfalcon.remote.json"  # beside the copies: what the files were when they were copied


def remote(url: str, cache: str | os.PathLike[str], **options: Any) -> list[str]:
    """Copy the files of an address into a folder, unless they are there already, and give their paths for `open`.

    Nothing is ever fetched without this call: estimators, `open` and the command line refuse addresses.

    Parameters
    ----------
    url : str
        Of a file, a folder or a pattern, with a protocol that fsspec knows: ``s3://``, ``gs://``, ``https://``,
        ``sftp://`` and many more. A folder that ends in ``.zarr`` stays one array or group.
    cache : path
        The folder for the copies. A file that has not changed at its address is not copied again.
    **options
        For the file system, such as ``anon=True``.

    Examples
    --------
    >>> import tempfile, fsspec, gyrfalcon as gf
    >>> with fsspec.open("memory://example/squares.csv", "w") as file:
    ...     _ = file.write("x,y\\n1,1\\n2,4\\n")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = gf.data.open(gf.data.remote("memory://example/*.csv", folder), target="y")
    ...     table.X.to_array().tolist(), table.y.tolist()
    ([[1.0], [2.0]], [1, 4])
    """
    try:
        import fsspec  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError("reading from addresses needs the fsspec package: pip install 'gyrfalcon[remote]'") from error
    if not isinstance(url, str) or "://" not in url:
        raise ValueError(f"url must be an address such as s3://bucket/trips.parquet, got {url!r}: `open` takes paths")
    try:
        system, path = fsspec.core.url_to_fs(url, **options)
    except (ImportError, ValueError) as error:
        raise ValueError(f"{url} cannot be read: {error}") from error
    root, names = _files(system, path)
    if not names:
        raise FileNotFoundError(f"{url}: there is no such file")
    folder = Path(cache)
    folder.mkdir(parents=True, exist_ok=True)
    stamps = _stamps(folder)
    top: dict[str, None] = {}
    for name in sorted(names):
        relative = name[len(root) :].lstrip("/")
        target = _inside(folder, relative, url)
        stamp = _stamp(system, name)
        if stamps.get(relative) != stamp or not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            with replacing(target) as unfinished:
                system.get_file(name, str(unfinished))
            stamps[relative] = stamp
            with replacing(folder / STAMPS) as unfinished:
                Path(unfinished).write_text(json.dumps(stamps))
        top.setdefault(str(_array_of(folder, target)))
    return list(top)


def _files(system: Any, path: str) -> tuple[str, list[str]]:
    """What is common to the names of all files, and these."""
    if any(mark in path for mark in "*?["):
        found = system.glob(path)
        fixed = path[: min(path.index(mark) for mark in "*?[" if mark in path)]
        root = fixed.rpartition("/")[0]
        return root, [name for entry in found for name in _below(system, entry)]
    return path.rstrip("/").rpartition("/")[0], _below(system, path) if system.exists(path) else []


def _below(system: Any, entry: str) -> list[str]:
    return [str(name) for name in (system.find(entry) if system.isdir(entry) else [entry])]


def _inside(folder: Path, relative: str, url: str) -> Path:
    """Where a file goes; names that lead out of the folder are refused."""
    target = (folder / relative).resolve()
    if not relative or folder.resolve() not in target.parents:
        raise ValueError(f"{url} has a file called {relative!r}, which would lead out of {folder}: it is not copied")
    return folder / relative


def _array_of(folder: Path, target: Path) -> Path:
    """The Zarr folder that a file is part of, or the file."""
    for parent in reversed(target.relative_to(folder).parents):
        if parent.name.lower().endswith(".zarr"):
            return folder / parent
    return target


def _stamp(system: Any, name: str) -> str:
    """Changes when the file does."""
    facts = system.info(name)
    known = {
        key: str(facts[key]) for key in ("size", "ETag", "etag", "mtime", "LastModified", "created") if key in facts
    }
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def _stamps(folder: Path) -> dict[str, str]:
    try:
        found = json.loads((folder / STAMPS).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
