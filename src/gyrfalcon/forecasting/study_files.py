"""Where a study stands, in files: a directory for each station."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gyrfalcon.arrays import Array
from gyrfalcon.checkpoints import Checkpoint
from gyrfalcon.estimators.fingerprint import fingerprint

from .forecaster import KernelForecaster
from .results import Backtest
from .series import Series
from .trial import Trial

TRIALS, BACKTESTS = "evaluations", "solver"  # stages of the checkpoint
ARRAYS = ("mean", "actual", "persistence")
STAMPS = ("origins", "times")


@dataclass(frozen=True)
class Kept:
    """The trials and backtests of one station that are done, if they are to be kept."""

    directory: Path | None
    checkpoint: Checkpoint | None

    @classmethod
    def of(
        cls,
        checkpoint: str | os.PathLike[str] | None,
        number: int,
        prototype: KernelForecaster,
        series: Series,
        settings: Any,
    ) -> Kept:
        if checkpoint is None:
            return cls(None, None)
        directory = _directory(checkpoint, number)
        data = {"the series": series.content, "the grid": settings}
        kept = Checkpoint(directory, fingerprint(prototype, data))
        kept.begin({})
        return cls(directory, kept)

    @staticmethod
    def clear(checkpoint: str | os.PathLike[str] | None, number: int) -> None:
        """Remove the files of one station."""
        if checkpoint is not None:
            Checkpoint(_directory(checkpoint, number), {}).clear()

    def folder(self, mode: str) -> Path | None:
        """Where a backtest under way is kept."""
        return None if self.directory is None else self.directory / mode

    def trials(self) -> list[Trial]:
        facts, arrays = self._load(TRIALS)
        return [Trial.unpack(one, _under(arrays, f"{place}.")) for place, one in enumerate(facts.get("trials", []))]

    def keep_trials(self, trials: list[Trial]) -> None:
        packed = [trial.pack() for trial in trials]
        arrays = {f"{place}.{name}": array for place, (_, own) in enumerate(packed) for name, array in own.items()}
        self._save(TRIALS, {"trials": [facts for facts, _ in packed]}, arrays)

    def backtests(self) -> dict[str, Backtest]:
        facts, arrays = self._load(BACKTESTS)
        return {mode: _unpacked(mode, one, _under(arrays, f"{mode}.")) for mode, one in facts.items()}

    def keep_backtests(self, backtests: dict[str, Backtest]) -> None:
        facts: dict[str, Any] = {}
        arrays: dict[str, Array] = {}
        for mode, test in backtests.items():
            facts[mode] = {
                "target": test.target,
                "horizons": list(test.horizons),
                "levels": list(test.intervals),
            }
            arrays |= {f"{mode}.{name}": getattr(test, name) for name in ARRAYS}
            arrays |= {
                f"{mode}.{name}": getattr(test, name).astype("datetime64[us]").astype(np.int64) for name in STAMPS
            }
            for level, bounds in test.intervals.items():
                arrays |= {f"{mode}.{level:g}.{place}": bound for place, bound in enumerate(bounds)}
        self._save(BACKTESTS, facts, arrays)

    def _load(self, stage: str) -> tuple[dict[str, Any], dict[str, Any]]:
        found = None if self.checkpoint is None else self.checkpoint.load(stage)
        return ({}, {}) if found is None else found

    def _save(self, stage: str, facts: dict[str, Any], arrays: dict[str, Any]) -> None:
        if self.checkpoint is not None:
            self.checkpoint.save(stage, facts, arrays)


def _directory(checkpoint: str | os.PathLike[str], number: int) -> Path:
    return Path(checkpoint) / f"station-{number}"


def _under(arrays: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _unpacked(mode: str, facts: dict[str, Any], arrays: dict[str, Any]) -> Backtest:
    levels = [float(level) for level in facts["levels"]]
    return Backtest(
        target=str(facts["target"]),
        horizons=tuple(int(horizon) for horizon in facts["horizons"]),
        intervals={level: (arrays[f"{level:g}.0"], arrays[f"{level:g}.1"]) for level in levels},
        retrain=mode,
        **{name: arrays[name].astype("datetime64[us]") for name in STAMPS},
        **{name: arrays[name] for name in ARRAYS},
    )
