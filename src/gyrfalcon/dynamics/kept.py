"""The checkpoint of a fit to runs: centers, sums and how many frames they hold."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gyrfalcon.checkpoints import Checkpoint, CheckpointError
from gyrfalcon.estimators.fingerprint import fingerprint
from gyrfalcon.kernels import Kernel
from gyrfalcon.moments import LagSums, SpectralWhitening

from .lift import Lift
from .runs import Runs

CHOICE, PASS = "centers", "solver"  # stages of the checkpoint


class KeptFit:
    """What is known of a fit that may be killed. The same fit, begun again, goes on from there and has the same bits.

    Parameters
    ----------
    directory : path
    model : estimator
        Its parameters are part of what makes fits the same.
    runs : Runs
    memory_budget : int, optional
    """

    def __init__(self, directory: str | os.PathLike[str], model: Any, runs: Runs, memory_budget: int | None = None):
        self._checkpoint = Checkpoint(directory, fingerprint(model, {"the runs": runs}))
        self._checkpoint.begin({})
        self._budget = memory_budget

    def lift(self, choose: Callable[[], tuple[Kernel, Lift]]) -> tuple[Kernel, Lift]:
        """The kernel and the features that the fit began with, or those chosen now."""
        kept = self._checkpoint.load(CHOICE)
        if kept is not None:
            facts, arrays = kept
            try:
                kernel = Kernel.from_dict(facts["kernel"])
                whitening = SpectralWhitening(np.asfortranarray(arrays["vectors"]), arrays["values"])
                return kernel, Lift(kernel, arrays["centers"], memory_budget=self._budget, whitening=whitening)
            except (LookupError, TypeError, ValueError) as error:
                raise CheckpointError(f"the checkpoint cannot be used ({error}): delete it to begin anew") from error
        kernel, lift = choose()
        arrays = {"centers": lift.centers, "vectors": lift.whitening.vectors, "values": lift.whitening.values}
        self._checkpoint.save(CHOICE, {"kernel": kernel.to_dict()}, arrays)
        return kernel, lift

    def resume(self, sums: Sequence[LagSums]) -> int:
        """Put sums where they stood; returns how many frames they hold."""
        kept = self._checkpoint.load(PASS)
        if kept is None:
            return 0
        facts, arrays = kept
        try:
            for place, one in enumerate(sums):
                head = f"{place}/"
                mine = {name.removeprefix(head): array for name, array in arrays.items() if name.startswith(head)}
                one.unpack(facts["sums"][place], mine)
            return int(facts["frames"])
        except (LookupError, TypeError, ValueError) as error:
            raise CheckpointError(f"the checkpoint cannot be used ({error}): delete it to begin anew") from error

    def keep(self, sums: Sequence[LagSums], frames: int) -> None:
        """Write where the sums stand, if it is due."""
        if not self._checkpoint.due:
            return
        packed = [one.pack() for one in sums]
        arrays = {f"{place}/{name}": array for place, (_, own) in enumerate(packed) for name, array in own.items()}
        self._checkpoint.save(PASS, {"frames": frames, "sums": [facts for facts, _ in packed]}, arrays)

    def clear(self) -> None:
        """The fit has ended."""
        self._checkpoint.clear()
