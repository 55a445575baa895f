"""Checkpoints: where a long fit stands, in a few files that are whole whenever a process is killed. Never pickle."""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gyrfalcon.persistence import UNFINISHED, ModelFileError, compose, parse, write_whole

Array = np.ndarray[Any, Any]
State = tuple[dict[str, Any], dict[str, Array]]

VERSION = 1
# In the order of a fit. The second tuning is that of targets that are mapped.
STAGES = ("start", "evaluations", "tuning", "second-evaluations", "second-tuning", "centers", "solver")
PREFIX, SUFFIX = "gyrfalcon-", ".safetensors"
EVERY_SECONDS = 5.0
PAUSE = 20  # times what writing took: a checkpoint costs at most a twentieth of the fit, however large it is


class CheckpointError(ValueError):
    """A folder that cannot serve as the checkpoint of this fit.

    Examples
    --------
    >>> from gyrfalcon.checkpoints import CheckpointError
    >>> issubclass(CheckpointError, ValueError)
    True
    """


class CheckpointWarning(UserWarning):
    """A checkpoint that could not be written, or not be read: the fit goes on without it.

    Examples
    --------
    >>> from gyrfalcon.checkpoints import CheckpointWarning
    >>> issubclass(CheckpointWarning, UserWarning)
    True
    """


class Checkpoint:
    """The latest state of each stage of one fit, a file a stage, in a folder.

    Files are written whole or not at all. Each says which fit it belongs to; those of another fit are refused, those
    that are damaged are as good as not there. A file that cannot be written is a warning, once, and no more: the last
    one that could be is still there.

    Parameters
    ----------
    directory : path
        Made if it does not exist.
    fingerprint : mapping of str to str
        What the fit is made of, by name, each as a digest: a fit is the same if all of them are.
    every_seconds : float, optional
        How often at most the state of a stage under way is written.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from gyrfalcon.checkpoints import Checkpoint
    >>> folder = tempfile.TemporaryDirectory()
    >>> first = Checkpoint(folder.name, {"X": "12ab"})
    >>> first.begin({"seed": 7})
    {'seed': 7}
    >>> first.save("solver", {"iteration": 3}, {"x": np.ones(2)})
    True
    >>> again = Checkpoint(folder.name, {"X": "12ab"})  # in another process, say
    >>> again.begin({"seed": 8})
    {'seed': 7}
    >>> again.load("solver")
    ({'iteration': 3}, {'x': array([1., 1.])})
    >>> Checkpoint(folder.name, {"X": "ffff"}).begin({"seed": 9})
    Traceback (most recent call last):
    gyrfalcon.checkpoints.CheckpointError: checkpoint=... holds another fit, which differs in X: ...
    >>> folder.cleanup()
    """

    def __init__(
        self, directory: str | os.PathLike[str], fingerprint: Mapping[str, str], *, every_seconds: float | None = None
    ):
        self.directory = Path(directory)
        self.fingerprint = dict(fingerprint)
        self.every_seconds = EVERY_SECONDS if every_seconds is None else every_seconds
        self._unwritten: dict[str, Any] | None = None  # facts of the start that are not on the disk yet
        self._pause, self._written = self.every_seconds, time.monotonic()
        self._failed = False
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(
                f"checkpoint={os.fspath(directory)!r} cannot be made a directory ({error}): choose another"
            ) from error

    def begin(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """The facts that this fit began with: those that are kept, or else the ones given, which then are kept.

        Without them what other stages hold means nothing and is removed.
        """
        for unfinished in self.directory.glob(f"{PREFIX}*{UNFINISHED}"):
            _remove(unfinished)
        kept = self.load("start")
        if kept is not None:
            return kept[0]
        self.clear()
        self._unwritten = dict(facts)
        self._write_start()
        return dict(facts)

    @property
    def due(self) -> bool:
        """Whether it is time to write where a stage under way stands."""
        return time.monotonic() - self._written >= self._pause

    def keep(self, stage: str, take: Callable[[], State]) -> None:
        """Write the state that `take` gives, if it is due."""
        if self.due:
            self.save(stage, *take())

    def save(self, stage: str, facts: Mapping[str, Any], arrays: Mapping[str, Array]) -> bool:
        """Replace the state of a stage by facts that JSON can hold and arrays; False if they could not be written."""
        began = time.monotonic()
        done = self._write_start() and self._write(stage, facts, arrays)
        self._written = time.monotonic()
        self._pause = max(self.every_seconds, PAUSE * (self._written - began))
        return done

    def load(self, stage: str) -> State | None:
        """The facts and arrays of a stage, or None if there are none that can be used."""
        path = self._path(stage)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CheckpointError(
                f"checkpoint={os.fspath(self.directory)!r}: {path.name} cannot be read ({error}): make it readable, or "
                "delete the directory to begin anew"
            ) from error
        try:
            description, arrays = parse(content)
            if description["checkpoint"] != stage or description["version"] != VERSION:
                raise ModelFileError("it is not the checkpoint that its name promises")
            fingerprint, facts = dict(description["fingerprint"]), dict(description["facts"])
            columns_first = set(description["columns_first"])
            # Sums depend on the order in memory, so that is kept too.
            ordered = {name: np.array(a, order="F" if name in columns_first else "C") for name, a in arrays.items()}
        except (LookupError, RecursionError, TypeError, ValueError) as error:
            self._warn(f"{path.name} is damaged ({error}): what it held is computed again")
            return None
        self._check(fingerprint)
        return facts, ordered

    def remove(self, stage: str) -> None:
        """Forget a stage."""
        _remove(self._path(stage))

    def clear(self) -> None:
        """Remove the files of all stages, the last first; the directory stays."""
        for stage in reversed(STAGES):
            self.remove(stage)

    def _path(self, stage: str) -> Path:
        return self.directory / f"{PREFIX}{stage}{SUFFIX}"

    def _write_start(self) -> bool:
        """Whether the start is on the disk: without it a later stage could not be used."""
        if self._unwritten is not None and self._write("start", self._unwritten, {}):
            self._unwritten = None
        return self._unwritten is None

    def _write(self, stage: str, facts: Mapping[str, Any], arrays: Mapping[str, Array]) -> bool:
        description = {
            "checkpoint": stage,
            "version": VERSION,
            "fingerprint": self.fingerprint,
            "facts": dict(facts),
            "columns_first": [name for name, array in arrays.items() if _columns_first(array)],
        }
        try:
            write_whole(self._path(stage), compose(description, arrays))
        except (MemoryError, OSError) as error:
            if not self._failed:
                self._warn(
                    f"{self._path(stage).name} could not be written ({error!r}); the fit goes on, but if it is killed "
                    "it resumes from the last file that could be: make room, or pass another directory next time"
                )
            self._failed = True
            return False
        return True

    def _check(self, fingerprint: Mapping[str, str]) -> None:
        names = [*self.fingerprint, *(name for name in fingerprint if name not in self.fingerprint)]
        different = [name for name in names if fingerprint.get(name) != self.fingerprint.get(name)]
        if different:
            raise CheckpointError(
                f"checkpoint={os.fspath(self.directory)!r} holds another fit, which differs in {', '.join(different)}: "
                "repeat that fit to finish it, delete the directory to begin anew, or pass another"
            )

    def _warn(self, message: str) -> None:
        warnings.warn(f"checkpoint={os.fspath(self.directory)!r}: {message}", CheckpointWarning, stacklevel=2)


def _columns_first(array: Array) -> bool:
    return array.ndim == 2 and array.strides[0] < array.strides[1] and 1 not in array.shape


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):  # one that stays is read, and held against the fit, next time
        path.unlink(missing_ok=True)
