"""Output layers of Mask R-CNN on the features of our model: proposals, detection and masks, trained by gradients.

They are what the literature calls fine-tuned output layers: linear layers that begin from nothing on frozen features,
with Mask R-CNN's losses, its shares of positives in a frame, and SGD with momentum, one step for each frame. They see
the rows that our model learns from, and take its place in the same search for instances.
"""

from __future__ import annotations

import time
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

Array = np.ndarray[Any, Any]

MOMENTUM, DECAY = 0.9, 1e-4
LOCATIONS, LOCATION_SHARE = 256, 0.5  # boxes of a step for proposals, and the largest share of positives among them
REGIONS, REGION_SHARE = 512, 0.25  # likewise for detection


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
                label: (torch.from_numpy(rows.X), torch.from_numpy(rows.labels == 0).float())
                for label, masks in model._masks.items()
                if (rows := masks.frames.get(number)) is not None
            },
        )
        for number, frame in model._frames.items()
    ]


class Layer(nn.Module):
    """A linear layer on rows minus their mean, whose mean length is made one."""

    def __init__(self, rows: list[Array], outputs: int):
        super().__init__()
        X = torch.from_numpy(np.concatenate(rows).astype(np.float32))
        self.mean = X.mean(0)
        self.length = (X - self.mean).norm(dim=1).mean()
        self.linear = nn.Linear(X.shape[1], outputs)

    def forward(self, X: Tensor) -> Tensor:
        scores: Tensor = self.linear((X.float() - self.mean) / self.length)
        return scores


class OutputLayers(nn.Module):
    """Scores and codes of anchors, shares and codes of classes, and scores of mask samples."""

    def __init__(self, frames: list[Taught], classes: list[str]):
        super().__init__()
        self.classes = classes
        self.locations = Layer([one.frame.locations.X for one in frames], 5 * anchors.COUNT)
        self.regions = Layer([one.frame.regions.X for one in frames], 5 * len(classes) + 1)
        self.masks = Layer([X.numpy() for one in frames for X, _ in one.masks.values()], len(classes))

    def loss(self, taught: Taught, random: np.random.Generator) -> Tensor:
        """The sum of Mask R-CNN's five losses for one frame."""
        return (
            self._of_locations(taught.frame, random) + self._of_regions(taught.frame, random) + self._of_masks(taught)
        )

    def _of_locations(self, frame: Frame, random: np.random.Generator) -> Tensor:
        rows = frame.locations
        shown = (rows.overlap > LOCATION_POSITIVE) | rows.best
        both = _drawn(shown, ~shown & (rows.overlap < LOCATION_NEGATIVE), LOCATIONS, LOCATION_SHARE, random)
        used, inverse = np.unique(both // anchors.COUNT, return_inverse=True)
        outputs = self.locations(torch.from_numpy(rows.X[used]))[torch.from_numpy(inverse)]
        kinds, right = torch.from_numpy(both % anchors.COUNT), torch.from_numpy(shown.ravel()[both])
        scores = outputs.gather(1, kinds[:, None])[:, 0]
        codes = outputs[:, anchors.COUNT :].reshape(len(both), anchors.COUNT, 4)[torch.arange(len(both)), kinds]
        aims = torch.from_numpy(rows.codes.reshape(-1, 4)[both]).float()
        return functional.binary_cross_entropy_with_logits(scores, right.float()) + _moves(codes, aims, right)

    def _of_regions(self, frame: Frame, random: np.random.Generator) -> Tensor:
        rows, count = frame.regions, len(self.classes)
        labels, aims = np.full(len(rows.keys), count), np.zeros((len(rows.keys), 4))
        for label in frame.labels:
            kind = frame.labels.index(label)
            own = rows.positive(kind, REGION_POSITIVE)
            labels[own], aims[own] = self.classes.index(label), rows.codes[own, kind]
        others = (labels == count) & (rows.overlap < REGION_NEGATIVE).all(1)
        both = _drawn(labels < count, others, REGIONS, REGION_SHARE, random)
        outputs, chosen = self.regions(torch.from_numpy(rows.X[both])), torch.from_numpy(labels[both])
        right = chosen < count
        codes = outputs[:, count + 1 :].reshape(len(both), count, 4)
        codes = codes[torch.arange(len(both)), chosen.clamp(max=count - 1)]
        moves = _moves(codes, torch.from_numpy(aims[both]).float(), right)
        return functional.cross_entropy(outputs[:, : count + 1], chosen) + moves

    def _of_masks(self, taught: Taught) -> Tensor:
        losses = [
            functional.binary_cross_entropy_with_logits(self.masks(X)[:, self.classes.index(label)], inside)
            for label, (X, inside) in taught.masks.items()
        ]
        return torch.stack(losses).mean() if losses else torch.zeros(())

    def model(self) -> Model:
        """These layers in place of what our model has trained."""
        detectors: Any = {label: self._detector(place) for place, label in enumerate(self.classes)}
        masks: Any = {label: self._mask(place) for place, label in enumerate(self.classes)}
        return Model(Proposer(np.arange(anchors.COUNT), self._proposer()), detectors, masks)

    def _proposer(self) -> Any:
        def scores_and_codes(X: Array) -> Array:
            outputs = _without_gradient(self.locations, X)
            return torch.cat([_signed(outputs[:, : anchors.COUNT]), outputs[:, anchors.COUNT :]], 1).numpy()

        return scores_and_codes

    def _detector(self, place: int) -> Any:
        count = len(self.classes)

        def score_and_codes(X: Array) -> tuple[Array, Array]:
            outputs = _without_gradient(self.regions, X)
            shares = outputs[:, : count + 1].softmax(1)[:, place]
            first = count + 1 + 4 * place
            return (2 * shares - 1).numpy(), outputs[:, first : first + 4].numpy()

        return score_and_codes

    def _mask(self, place: int) -> Any:
        return lambda X: _without_gradient(self.masks, X)[:, [place]].numpy()


def trained(
    frames: list[Taught], classes: list[str], rate: float, epochs: int, shuffled: bool
) -> tuple[OutputLayers, float]:
    """Layers after so many epochs, and the CPU seconds that they took; frames as they came, or shuffled each time.

    The rate falls to nothing in a straight line.
    """
    random = np.random.default_rng(0)
    torch.manual_seed(0)
    layers = OutputLayers(frames, classes)
    begin = time.process_time()
    steps = torch.optim.SGD(layers.parameters(), rate, MOMENTUM, weight_decay=DECAY)
    falling = torch.optim.lr_scheduler.LinearLR(steps, 1.0, 0.0, total_iters=epochs * len(frames))
    for _ in range(epochs):
        for place in random.permutation(len(frames)) if shuffled else range(len(frames)):
            steps.zero_grad()
            layers.loss(frames[place], random).backward()
            steps.step()
            falling.step()
    return layers, time.process_time() - begin


def mean_loss(layers: OutputLayers, frames: list[Taught]) -> float:
    """Over frames that were not learned from."""
    random = np.random.default_rng(1)
    with torch.no_grad():
        return float(np.mean([layers.loss(one, random).item() for one in frames]))


def _drawn(positive: Array, negative: Array, count: int, share: float, random: np.random.Generator) -> Array:
    """Places of positives, at most a share of so many, and of negatives for the rest."""
    shown, others = np.flatnonzero(positive), np.flatnonzero(negative)
    shown = random.permutation(shown)[: int(share * count)]
    return np.concatenate([shown, random.permutation(others)[: count - len(shown)]])


def _moves(codes: Tensor, aims: Tensor, right: Tensor) -> Tensor:
    """The loss of refinements of positives."""
    return functional.smooth_l1_loss(codes[right], aims[right], reduction="sum", beta=1.0) / max(1, len(right))


def _without_gradient(layer: Layer, X: Array) -> Tensor:
    with torch.no_grad():
        found: Tensor = layer(torch.from_numpy(X))
        return found


def _signed(scores: Tensor) -> Tensor:
    """Probabilities between -1 and 1, as our classifiers score."""
    return 2 * scores.sigmoid() - 1
