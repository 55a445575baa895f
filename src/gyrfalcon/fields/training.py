"""Training: steps of Adam on batches of rays, a schedule, a record, and a state that can be kept and taken up again."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from gyrfalcon.arrays import Array

from .draws import Draws
from .engine import AdamState
from .field import Field
from .layout import PenaltyWeights, penalty_slopes

PLANE_RATE, DECODER_RATE = 0.04, 0.01  # of Adam, when the warm-up ends
LAST_RATE = 0.05  # share of the rates that is left at the end
WARM_UP = 50  # steps
SAMPLES_PER_STEP, MOST_RAYS, LEAST_RAYS = 1 << 16, 4096, 128
MEMORY = 0.95  # of the running mean of squared errors


@dataclass(frozen=True)
class Goals:
    """How long to train, and what besides the colors is minimized."""

    steps: int | None
    seconds: float | None
    weights: PenaltyWeights
    distortion: float = 0.0

    def progress(self, step: int, seconds: float) -> float:
        """From 0 to 1, where training ends."""
        return step / self.steps if self.steps is not None else seconds / (self.seconds or math.inf)


@dataclass
class Record:
    """How training went: steps, seconds and the PSNR of training rays lately, in dB.

    Examples
    --------
    >>> from gyrfalcon.fields import Record
    >>> Record([1, 2], [0.1, 0.2], [5.0, 6.0]).psnr
    [5.0, 6.0]
    """

    steps: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    psnr: list[float] = field(default_factory=list)

    def add(self, step: int, seconds: float, psnr: float) -> None:
        self.steps.append(step)
        self.seconds.append(seconds)
        self.psnr.append(psnr)


class Trainer:
    """Trains one field on rays; `step` is one step of Adam."""

    def __init__(self, field: Field, draws: Draws, goals: Goals, generator: torch.Generator):
        self.field, self.draws, self.goals, self.generator = field, draws, goals, generator
        self.planes = AdamState.of(field.planes)
        self.numbers = AdamState.of(field.numbers.requires_grad_())
        self.codes = None if field.codes is None else AdamState.of(field.codes.requires_grad_())
        self.slopes = penalty_slopes(field.layout, goals.weights)
        self.count, self.rays_per_step, self.error, self.seconds = 0, 4 * LEAST_RAYS, math.nan, 0.0
        self.record = Record()
        self.stepping = False  # whether a step has begun and not ended

    @property
    def progress(self) -> float:
        return self.goals.progress(self.count, self.seconds)

    @property
    def psnr(self) -> float:
        """Of the rays of the last steps."""
        return -10 * math.log10(max(self.error, 1e-12))

    def step(self) -> None:
        """One step of Adam."""
        began = time.monotonic()
        self.stepping = True
        share = self._share()
        self._learn(share)
        self.count += 1
        self.seconds += time.monotonic() - began
        self.stepping = False
        if self.count & (self.count - 1) == 0 or self.count % 256 == 0:
            self.record.add(self.count, self.seconds, self.psnr)

    def finish(self) -> None:
        """Leave a field that remembers nothing of its training."""
        if self.record.steps[-1:] != [self.count]:  # which `step` has added already, if it is a power of two
            self.record.add(self.count, self.seconds, self.psnr)
        self.field.numbers = self.field.numbers.detach()
        if self.field.codes is not None:
            self.field.codes = self.field.codes.detach()

    def _share(self) -> float:
        """Of the learning rates: a warm-up, then half a wave down."""
        fall = 0.5 * (1 + math.cos(math.pi * min(1.0, self.progress)))
        return min(1.0, (self.count + 1) / WARM_UP) * (LAST_RATE + (1 - LAST_RATE) * fall)

    def _learn(self, share: float) -> None:
        field, engine = self.field, self.field.engine
        bundle = self.draws.draw(self.rays_per_step, self.progress, self.generator, field.planes)
        jitter = torch.rand(len(bundle.origins), generator=self.generator).to(field.planes)
        rays = field.space.rays(bundle.origins, bundle.directions, jitter, bundle.times)
        samples = field.sampler.samples(field, rays, self.generator)
        codes = None if field.codes is None else field.codes[bundle.images]
        outputs, backward = field.look(samples, bundle.directions, codes, self.planes.gradient)
        outputs = outputs.detach()
        backdrop = field.backdrop(len(jitter))
        seen = engine.composite(samples, outputs, field.shift, backdrop)
        errors = seen.color - bundle.colors
        in_weights = None
        if self.goals.distortion:
            scale = self.goals.distortion / (len(errors) * field.unit)
            in_weights = engine.distortion(samples, seen.weights)[1] * scale
        in_color = errors * (2 / errors.numel())
        backward(engine.composite_backward(samples, outputs, field.shift, backdrop, in_color, in_weights=in_weights))
        self._update(share)
        field.sampler.learn(field, samples, seen.weights, share, self.generator)
        self._note(float(errors.square().mean()), len(errors), len(outputs))

    def _update(self, share: float) -> None:
        self.field.engine.update(self.field.layout, self.planes, self.slopes, PLANE_RATE * share)
        for state in (self.numbers, self.codes):
            if state is not None and state.parameters.grad is not None:
                state.advance(state.parameters.grad, DECODER_RATE * share)
                state.parameters.grad = None

    def _note(self, error: float, rays: int, samples: int) -> None:
        """The error, and as many rays for the next step as give about the wanted number of samples."""
        self.error = error if math.isnan(self.error) else MEMORY * self.error + (1 - MEMORY) * error
        wanted = min(rays * SAMPLES_PER_STEP / max(1, samples), 2 * rays)
        self.rays_per_step = int(min(MOST_RAYS, max(LEAST_RAYS, wanted)))

    def pack(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """All that the next step reads."""
        facts, arrays = self.field.sampler.pack(training=True)
        arrays = {f"sampler.{name}": array for name, array in arrays.items()}
        for name, state in self._states().items():
            arrays |= {f"{name}.{part}": array for part, array in state.pack(training=True).items()}
        arrays["generator"] = self.generator.get_state().numpy()
        return {
            "count": self.count,
            "rays_per_step": self.rays_per_step,
            "error": self.error,
            "seconds": self.seconds,
            "record": asdict(self.record),
            "sampler": facts,
        }, arrays

    def take(self, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        """What `pack` packed."""

        def part(prefix: str) -> dict[str, Array]:
            return {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}

        for name, state in self._states().items():
            state.take(part(f"{name}."), int(facts["count"]))
        self.field.sampler.take(facts["sampler"], part("sampler."))
        self.generator.set_state(torch.from_numpy(arrays["generator"]))
        self.count, self.rays_per_step = int(facts["count"]), int(facts["rays_per_step"])
        self.error, self.seconds = float(facts["error"]), float(facts["seconds"])
        self.record = Record(**facts["record"])

    def _states(self) -> dict[str, AdamState]:
        states = {"planes": self.planes, "numbers": self.numbers}
        return states if self.codes is None else states | {"codes": self.codes}
