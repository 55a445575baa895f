"""Output layers of Mask R-CNN on the features of our model: proposals, detection and masks, trained by gradients.

They are what the literature calls fine-tuned output layers: linear layers that begin from nothing on frozen features,
with Mask R-CNN's losses, its shares of positives in a frame, and SGD with momentum, one step for each frame. They see
the rows that our model learns from, and take its place in the same search for instances.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from gyrfalcon import vision
from gyrfalcon.vision import anchors
from gyrfalcon.vision.finding import Model
from gyrfalcon.vision.frames import LOCATION_NEGATIVE, LOCATION_POSITIVE, REGION_NEGATIVE, REGION_POSITIVE, Frame
from gyrfalcon.vision.proposals import Proposer
from gyrfalcon.vision.silhouettes import SIDE

Array = np.ndarray[Any, Any]

MOMENTUM, DECAY = 0.9, 1e-4
LOCATIONS, LOCATION_SHARE = 256, 0.5  # boxes of a step for proposals, and the largest share of positives among them
REGIONS, REGION_SHARE = 512, 0.25  # likewise for detection
SCALES = torch.tensor([10.0, 10.0, 5.0, 5.0])  # of codes, so that their losses are as large as those of scores
LOSSES = ("location scores", "location codes", "region scores", "region codes", "masks")
TINY = 1e-6  # the least deviation of a feature


@dataclass(frozen=True)
class Taught:
    """What a frame teaches: its candidates, and for each class in it features and labels of samples of its masks."""

    frame: Frame
    masks: dict[str, tuple[Tensor, Tensor]]


def taught_frames(model: vision.InstanceSegmenter) -> list[Taught]:
    """Of all frames that a model has seen, in the order in which they came."""
    return [
        Taught(
            frame,
            {
                label: (torch.from_numpy(rows.X).float(), torch.from_numpy(rows.inside).float())
                for label, rows in frame.masks.items()
            },
        )
        for frame in model._frames.values()
    ]


class Layer(nn.Module):
    """Linear scores and, if there are any, codes of rows whose features have means of 0 and variances of 1."""

    def __init__(self, rows: list[Array], scores: int, codes: int = 0):
        super().__init__()
        X = torch.from_numpy(np.concatenate(rows).astype(np.float32))
        self.mean, self.deviation = X.mean(0), X.std(0).clamp(min=TINY)
        self.scores = nn.Linear(X.shape[1], scores)
        self.codes = nn.Linear(X.shape[1], codes) if codes else None
        for linear in (self.scores, self.codes):
            if linear is not None:
                nn.init.zeros_(linear.weight)
                nn.init.zeros_(linear.bias)

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        rows = (X.float() - self.mean) / self.deviation
        scores: Tensor = self.scores(rows)
        return scores, scores[:, :0] if self.codes is None else self.codes(rows)


class OutputLayers(nn.Module):
    """Scores and codes of anchors, shares and codes of classes, and scores of mask samples."""

    def __init__(self, frames: list[Taught], classes: list[str]):
        super().__init__()
        self.classes = classes
        self.locations = Layer([one.frame.locations.X for one in frames], anchors.COUNT, 4 * anchors.COUNT)
        self.regions = Layer([one.frame.regions.X for one in frames], len(classes) + 1, 4 * len(classes))
        self.masks = Layer([X.numpy() for one in frames for X, _ in one.masks.values()], len(classes))

    def parts(self) -> dict[str, nn.Module]:
        """Those that have a loss of their own, and share nothing, so that each can have a rate of its own."""
        linear = [part for layer in (self.locations, self.regions, self.masks) for part in layer.children()]
        return dict(zip(LOSSES, linear, strict=True))

    def losses(self, taught: Taught, random: np.random.Generator) -> Tensor:
        """Mask R-CNN's five losses for one frame."""
        return torch.stack(
            [*self._of_locations(taught.frame, random), *self._of_regions(taught.frame, random), self._of_masks(taught)]
        )

    def _of_locations(self, frame: Frame, random: np.random.Generator) -> tuple[Tensor, Tensor]:
        rows = frame.locations
        shown = (rows.overlap > LOCATION_POSITIVE) | rows.best
        both = _drawn(shown, ~shown & (rows.overlap < LOCATION_NEGATIVE), LOCATIONS, LOCATION_SHARE, random)
        used, inverse = np.unique(both // anchors.COUNT, return_inverse=True)
        scores, codes = self.locations(torch.from_numpy(rows.X[used]))
        kinds, right = torch.from_numpy(both % anchors.COUNT), torch.from_numpy(shown.ravel()[both])
        places = torch.from_numpy(inverse)
        codes = codes.reshape(-1, anchors.COUNT, 4)[places[right], kinds[right]]
        aims = torch.from_numpy(rows.codes.reshape(-1, 4)[both]).float()[right]
        return functional.binary_cross_entropy_with_logits(scores[places, kinds], right.float()), _moves(codes, aims)

    def _of_regions(self, frame: Frame, random: np.random.Generator) -> tuple[Tensor, Tensor]:
        rows, count = frame.regions, len(self.classes)
        labels, aims = np.full(len(rows.keys), count), np.zeros((len(rows.keys), 4))
        for label in frame.labels:
            kind = frame.labels.index(label)
            own = rows.positive(kind, REGION_POSITIVE)
            labels[own], aims[own] = self.classes.index(label), rows.codes[own, kind]
        others = (labels == count) & (rows.overlap < REGION_NEGATIVE).all(1)
        both = _drawn(labels < count, others, REGIONS, REGION_SHARE, random)
        (scores, codes), chosen = self.regions(torch.from_numpy(rows.X[both])), torch.from_numpy(labels[both])
        right = chosen < count
        codes = codes.reshape(len(both), count, 4)[right, chosen[right]]
        return functional.cross_entropy(scores, chosen), _moves(codes, torch.from_numpy(aims[both]).float()[right])

    def _of_masks(self, taught: Taught) -> Tensor:
        losses = [
            functional.binary_cross_entropy_with_logits(self.masks(X)[0][:, self.classes.index(label)], inside)
            for label, (X, inside) in taught.masks.items()
        ]
        return torch.stack(losses).mean() if losses else torch.zeros(())

    def model(self) -> Model:
        """These layers in place of what our model has trained."""
        detectors: Any = RegionLayers(self.regions, tuple(self.classes))
        masks: Any = {label: self._mask(place) for place, label in enumerate(self.classes)}
        return Model(Proposer(np.arange(anchors.COUNT), self._proposer()), detectors, masks)

    def _proposer(self) -> Any:
        def scores_and_codes(X: Array) -> Array:
            scores, codes = _without_gradient(self.locations, X)
            codes = (codes.reshape(len(X), anchors.COUNT, 4) / SCALES).reshape(len(X), 4 * anchors.COUNT)
            return torch.cat([_signed(scores), codes], 1).numpy()

        return scores_and_codes

    def _mask(self, place: int) -> Any:
        return lambda X: _signed(_without_gradient(self.masks, X)[0][:, [place]]).numpy()


@dataclass(frozen=True)
class RegionLayers:
    """The layers of regions in place of `Detectors`."""

    layer: Layer
    labels: tuple[str, ...]

    def __call__(self, X: Array) -> tuple[Array, Array]:
        scores, codes = _without_gradient(self.layer, X)
        shares = scores.softmax(1)[:, : len(self.labels)]
        return (2 * shares - 1).numpy(), (codes.reshape(len(X), len(self.labels), 4) / SCALES).numpy()

    def silhouettes(self, label: str, X: Array) -> Array:
        """None: the masks of these layers are made of samples alone."""
        return np.zeros((len(X), SIDE, SIDE))


def trained(
    frames: list[Taught], classes: list[str], rates: Mapping[str, float], epochs: int, shuffled: bool
) -> tuple[OutputLayers, float]:
    """Layers after so many epochs, and the CPU seconds that they took; frames as they came, or shuffled each time.

    Each loss has its rate, which falls to nothing along half a cosine.
    """
    random = np.random.default_rng(0)
    layers = OutputLayers(frames, classes)
    groups = [{"params": list(part.parameters()), "lr": rates[name]} for name, part in layers.parts().items()]
    steps = torch.optim.SGD(groups, momentum=MOMENTUM, weight_decay=DECAY)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(steps, epochs * len(frames))
    begin = time.process_time()
    for _ in range(epochs):
        for place in random.permutation(len(frames)) if shuffled else range(len(frames)):
            steps.zero_grad()
            layers.losses(frames[place], random).sum().backward()
            steps.step()
            falling.step()
    return layers, time.process_time() - begin


def mean_losses(layers: OutputLayers, frames: list[Taught]) -> dict[str, float]:
    """Over frames that were not learned from."""
    random = np.random.default_rng(1)
    with torch.no_grad():
        found = torch.stack([layers.losses(one, random) for one in frames]).mean(0)
    return dict(zip(LOSSES, found.nan_to_num(nan=float("inf")).tolist(), strict=True))


def _drawn(positive: Array, negative: Array, count: int, share: float, random: np.random.Generator) -> Array:
    """Places of positives, at most a share of so many, and of negatives for the rest."""
    shown, others = np.flatnonzero(positive), np.flatnonzero(negative)
    shown = random.permutation(shown)[: int(share * count)]
    return np.concatenate([shown, random.permutation(others)[: count - len(shown)]])


def _moves(codes: Tensor, aims: Tensor) -> Tensor:
    """The loss of refinements of positives."""
    return functional.smooth_l1_loss(codes, aims * SCALES, reduction="sum") / max(1, len(codes))


def _without_gradient(layer: Layer, X: Array) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        found: tuple[Tensor, Tensor] = layer(torch.from_numpy(X))
        return found


def _signed(scores: Tensor) -> Tensor:
    """Probabilities between -1 and 1, as our classifiers score."""
    return 2 * scores.sigmoid() - 1
