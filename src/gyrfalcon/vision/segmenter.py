"""The whole pipeline: proposals, detection and masks, taught frame by frame."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.exceptions import NotFittedError

from gyrfalcon.matrix.predictor import Predictor
from gyrfalcon.persistence import State

from . import files, segmenter_files
from .annotations import Instance, digest_of, read_instances
from .detection import train_detectors
from .extractors import SamDecoder, check_image, sam_decoder
from .features import FeatureMap, Features
from .finding import Found, Model, find
from .frames import Frame, Quota, left, locations_of, regions_of, share
from .keys import candidate_keys, frame_digest
from .masks import mask_rows, train_masks
from .minibootstrap import Settings
from .networks import resolve
from .pixels import check_count, check_positive
from .proposals import Proposer, train_proposals

Array = np.ndarray[Any, Any]

BATCH_SIZE = 2000
MASK_BATCHES = 4  # of samples of masks of one class, which five frames fill
MOST_LOCATION_BATCHES = 2  # which a few frames fill: each has no more than some hundred locations
MOST_FRAMES = 2000  # of which candidates are kept: a uniform sample if there were more
FORMAT = 3  # of model files; 1 had sums of masks and centers of each class, and 2 had no silhouettes
PROTOCOLS = ("parallel", "serial")


class InstanceSegmenter(files.TaughtModel):
    """Finds instances of classes that were shown in a few frames.

    Three modules on frozen features. Proposals: for each anchor a classifier of locations, and a linear refiner of
    boxes. Detection: for each class a classifier of regions against all others, a refiner, and silhouettes of what they
    show. Masks: for each class a classifier of the pixels in its boxes, to which silhouettes are added. Classifiers are
    Gaussian kernel machines with centers. Those of locations and regions learn from hard negatives by the
    minibootstrap, and those of pixels from a sample of pixels of all frames.

    What is kept of a frame is chosen by hashed keys, so that teaching all classes at once and one after another gives
    the same model, bit for bit.

    Parameters
    ----------
    net : Extractor or str
        A callable that returns maps of features; a name stands for `extractor(name)`, which is loaded when needed.
    n_centers : tuple of int
        At most so many for proposals, detection and masks.
    n_batches : int
        Batches of 2000 negatives of the minibootstrap, at least 2.
    length_scales, penalties : tuple of float
        Of the three kinds of classifiers, for features whose length is about 20.
    protocol : "parallel" or "serial"
        Regions to learn detection from are anchors and boxes near instances, so that detection does not wait for the
        proposals; or the trained proposals, which takes longer and keeps the features of all frames.
    random_state : int

    Attributes
    ----------
    classes_ : list of str
        In the order in which they appeared.

    Examples
    --------
    >>> import numpy as np
    >>> from gyrfalcon import vision
    >>> def colors(image):  # any callable is an extractor
    ...     return {8: image[4::8, 4::8].transpose(2, 0, 1) / 255.0 + 0.01}
    >>> def frame(left):
    ...     image, mask = np.full((96, 128, 3), 90, dtype=np.uint8), np.zeros((96, 128), dtype=bool)
    ...     mask[32:64, left : left + 32] = True
    ...     image[mask] = (250, 20, 20)
    ...     return image, mask
    >>> teacher = vision.InstanceSegmenter(colors, n_centers=(100, 100, 50), n_batches=2)
    >>> for left in (8, 32, 72):
    ...     image, mask = frame(left)
    ...     _ = teacher.observe(image, {"brick": mask})
    >>> image, mask = frame(56)
    >>> found = teacher.train().predict(image)
    >>> found[0].label, bool(vision.mask_iou(found[0].mask[None], mask[None])[0, 0] > 0.7)
    ('brick', True)
    """

    _model: Model | None
    _teachable = True
    _free = ("refine",)

    def __init__(
        self,
        net: Any = "tiny-vit",
        n_centers: tuple[int, int, int] = (1000, 1000, 500),
        n_batches: int = 5,
        random_state: int = 0,
        *,
        length_scales: tuple[float, float, float] = (12.0, 12.0, 8.0),
        penalties: tuple[float, float, float] = (1e-4, 1e-4, 1e-6),
        protocol: str = "parallel",
        refine: str | None = None,
    ):
        self.net = net
        self.n_centers = n_centers
        self.n_batches = n_batches
        self.random_state = random_state
        self.length_scales = length_scales
        self.penalties = penalties
        self.protocol = protocol
        self.refine = refine

    # Teaching.

    def observe(self, frame: Any, masks: Any, *, ignore: Any = None) -> int:
        """Learn from a frame, and return a number by which `forget` can take it out again.

        `predict` changes with the next `train`. A frame without instances teaches what background is.

        Parameters
        ----------
        frame : array of uint8 of shape (height, width, 3)
        masks : mapping of str to masks or boxes, or pairs of a label and one of them
            All instances of the classes in the frame: bool masks of the frame's shape, or boxes (left, top, right,
            bottom). What is not shown counts as background.
        ignore : array of bool of the frame's shape, optional
            Where instances may be that are not shown: what is there is not taken for background.
        """
        self._ready()
        pixels = check_image(frame, "frame")
        shape = (pixels.shape[0], pixels.shape[1])
        instances = read_instances(masks, shape)
        hidden = _check_ignore(ignore, shape)
        found = self._features(pixels)
        for label in sorted({one.label for one in instances} - set(self.classes_)):
            self.classes_.append(label)
        digest = self._digest(pixels, instances, hidden)
        number = self._next
        self._next += 1
        self._digests[number] = digest
        self._keep(number, self._frame(found, instances, hidden, digest))
        self._drop_digests()
        return number

    def forget(self, frame_id: int) -> None:
        """Take a frame out, as if it had never been observed; `predict` changes with the next `train`.

        The next model is the same, bit for bit, as long as no more than half of all frames and half of those with each
        class are forgotten: what made room for other frames does not come back.
        """
        self._ready()
        if frame_id not in self._frames:
            raise KeyError(f"frame_id: {frame_id!r} is not one of the frames that are kept")
        for kept in (self._frames, self._digests, self._ranks):
            kept.pop(frame_id, None)

    def add_class(self, name: str) -> None:
        """Have one more class, of which no instance was shown yet. `observe` does this by itself."""
        self._ready()
        if not isinstance(name, str) or not name:
            raise ValueError(f"name must be a text that is not empty, got {name!r}")
        if name in self.classes_:
            raise ValueError(f"name: there is a class {name!r} already")
        self.classes_.append(name)

    def train(self) -> Self:
        """Train proposals, detection and masks on what was kept."""
        self._ready()
        frames = sorted(self._frames.values(), key=lambda frame: frame.digest)
        proposer = train_proposals(frames, self._settings(0)) if frames else None
        if proposer is None:
            raise NotFittedError(
                "train needs a frame with an instance, and background that is not ignored: call observe"
            )
        if self.protocol == "serial":
            frames = [self._proposed(frame, proposer, len(frames)) for frame in frames]
        detectors = train_detectors(frames, self.classes_, self._settings(1))
        masks = {label: self._trained_masks(frames, label) for label in self.classes_}
        known = {label: predictor for label, predictor in masks.items() if predictor is not None}
        self._model = Model(proposer, detectors, known)
        return self

    def _trained_masks(self, frames: list[Frame], label: str) -> Predictor | None:
        """The masks of a class: those of the last time, if nothing changed that they were learned from."""
        learned = [(frame.digest, len(frame.masks[label].keys)) for frame in frames if label in frame.masks]
        if label not in self._solved or self._solved[label][0] != learned:
            self._solved[label] = learned, train_masks(frames, label, self._settings(2))
        return self._solved[label][1]

    # Finding.

    def predict(self, frame: Any, *, min_score: float = 0.4) -> list[Found]:
        """The instances in a frame, best first.

        Parameters
        ----------
        frame : array of uint8 of shape (height, width, 3)
        min_score : float
            Instances with lower scores are left out.
        """
        model = getattr(self, "_model", None)
        if model is None:
            raise NotFittedError("this InstanceSegmenter is not trained yet: call observe and train")
        return find(model, self._features(frame), min_score, None if self.refine is None else self._sam())

    def _sam(self) -> SamDecoder:
        """The decoder, read when it is first needed."""
        if self.refine != "sam":
            raise ValueError(f"refine must be None or 'sam', got {self.refine!r}")
        if not hasattr(self, "_decoder"):
            self._decoder = sam_decoder()
        return self._decoder

    # What is kept.

    def _ready(self) -> None:
        """Check the parameters and begin, if nothing was shown yet; if something was, they must be the same as then."""
        if hasattr(self, "_frames"):
            self._check_parameters()
            return
        for name in ("n_centers", "length_scales", "penalties"):
            values = getattr(self, name)
            if not isinstance(values, tuple | list) or len(values) != 3:
                raise ValueError(f"{name} must be three positive numbers, got {values!r}")
            for value in values:
                (check_count if name == "n_centers" else check_positive)(name, value)
        check_count("n_batches", self.n_batches, 2)
        check_count("random_state", self.random_state, 0)
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"protocol must be one of {PROTOCOLS}, got {self.protocol!r}")
        if self.refine not in (None, "sam"):
            raise ValueError(f"refine must be None or 'sam', got {self.refine!r}")
        self.classes_: list[str] = []
        self._features = Features(resolve(self.net))
        self._frames: dict[int, Frame] = {}
        self._digests: dict[int, int] = {}
        self._ranks: dict[int, int] = {}
        self._quotas: tuple[Quota, Quota, dict[str, int]] | None = None
        self._solved: dict[str, tuple[list[tuple[int, int]], Predictor | None]] = {}
        self._next = 0
        self._model = None
        self._fix_parameters()

    def _settings(self, module: int) -> Settings:
        batches = (min(self.n_batches, MOST_LOCATION_BATCHES), self.n_batches, MASK_BATCHES)[module]
        return Settings(self.n_centers[module], self.length_scales[module], self.penalties[module], BATCH_SIZE, batches)

    def _digest(self, pixels: Array, instances: list[Instance], ignore: Array | None) -> int:
        """Of a frame's content; one that is shown again has another."""
        hidden = b"" if ignore is None else np.packbits(ignore).tobytes()
        parts = (pixels.tobytes(), digest_of(instances), hidden)
        taken, turn = set(self._digests.values()), 0
        while (digest := frame_digest(*parts, str(turn).encode())) in taken:
            turn += 1
        return digest

    def _frame(self, found: FeatureMap, instances: list[Instance], ignore: Array | None, digest: int) -> Frame:
        labels = tuple(sorted({one.label for one in instances}))
        targets = np.array([one.box for one in instances]).reshape(-1, 4)
        quota = Quota.kept(self._settings(1).total, len(self._frames) + 1)
        seed, shown = self.random_state, tuple(instances)
        regions = regions_of(found, shown, labels, ignore, seed, digest, quota)
        locations = locations_of(found, targets, ignore, seed, digest)
        most = share(self._settings(2).total, 1)
        masks = {
            label: mask_rows(found, [one for one in instances if one.label == label], ignore, seed, digest, most)
            for label in labels
        }
        serial = self.protocol == "serial"
        return Frame(digest, labels, locations, regions, masks, found if serial else None, shown if serial else ())

    def _keep(self, number: int, frame: Frame) -> None:
        """Keep a frame, and of all frames what the number of them leaves room for."""
        self._frames[number] = frame
        if len(self._frames) > MOST_FRAMES:
            dropped = max(self._frames, key=self._rank)
            del self._frames[dropped]
            del self._ranks[dropped]
        shown = Counter(label for frame in self._frames.values() for label in frame.masks)
        masks = {label: share(self._settings(2).total, left(count)) for label, count in shown.items()}
        locations, regions = (Quota.kept(self._settings(module).total, len(self._frames)) for module in (0, 1))
        grown = [number] if (locations, regions, masks) == self._quotas else list(self._frames)
        self._quotas = locations, regions, masks
        self._frames |= {
            key: self._frames[key].pruned(locations, regions, masks) for key in grown if key in self._frames
        }

    def _rank(self, number: int) -> int:
        """Frames with the largest ranks are dropped where there are too many."""
        if number not in self._ranks:
            self._ranks[number] = int(candidate_keys(self.random_state, self._frames[number].digest, 1)[0])
        return self._ranks[number]

    def _drop_digests(self) -> None:
        """Remember the digests of those frames only of which something is kept."""
        if len(self._digests) > 2 * len(self._frames):
            self._digests = {number: digest for number, digest in self._digests.items() if number in self._frames}

    def _proposed(self, frame: Frame, proposer: Proposer, frames: int) -> Frame:
        """The frame with regions that the proposals gave instead of anchors."""
        assert frame.found is not None
        quota = Quota.learned(self._settings(1).total, frames)
        placed, _ = proposer(frame.found)
        regions = regions_of(
            frame.found, frame.instances, frame.labels, None, self.random_state, frame.digest, quota, placed
        )
        return replace(frame, regions=regions)

    # Files.

    def save(self, path: str | os.PathLike[str], *, teachable: bool = True) -> None:
        """Write the trained model to a safetensors file, whole or not at all.

        Parameters
        ----------
        path : path
        teachable : bool
            Whether to write also what is kept of the frames, so that the model that is read can be taught further, and
            can forget. Without it the file is small.
        """
        self._teachable = teachable
        try:
            super().save(path)
        finally:
            self._teachable = True

    def _describe_parameter(self, name: str, value: Any) -> Any:
        if name in ("n_centers", "length_scales", "penalties"):
            return [float(item) if name != "n_centers" else int(item) for item in value]
        return super()._describe_parameter(name, value)

    def _read_parameter(self, name: str, value: Any) -> Any:
        if name in ("n_centers", "length_scales", "penalties"):
            return tuple(value)
        return super()._read_parameter(name, value)

    def _state(self) -> State:
        model = getattr(self, "_model", None)
        if model is None:
            raise NotFittedError("this InstanceSegmenter is not trained yet: call observe and train")
        values: dict[str, Any] = {
            "format": FORMAT,
            "classes": self.classes_,
            "next": self._next,
            "teachable": self._teachable,
        }
        arrays = files.pack_features(self._features) | segmenter_files.pack_proposer(model.proposer)
        for place, label in enumerate(self.classes_):
            if label in model.masks:
                arrays |= segmenter_files.pack_predictor(model.masks[label], f"masks.{place}")
        values["masks"] = [label in model.masks for label in self.classes_]
        values["detectors"] = [] if model.detectors is None else list(model.detectors.labels)
        if model.detectors is not None:
            arrays |= segmenter_files.pack_detectors(model.detectors)
        if self._teachable:
            values["frames"] = {}
            values["digests"] = {str(number): digest for number, digest in self._digests.items()}
            for number, frame in self._frames.items():
                values["frames"][str(number)], more = segmenter_files.pack_frame(frame, f"frames.{number}")
                arrays |= more
        return values, arrays

    def _set_state(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        if values.get("format") != FORMAT:
            raise ValueError("an earlier version taught it, which learned otherwise: teach a new one")
        self._ready()
        self.classes_ = files.check_names(values["classes"])
        self._next = int(values["next"])
        self._features = files.unpack_features(self._features, arrays)
        scales = self.length_scales
        width = files.array(arrays, "proposer.centers", (None, None)).shape[1]
        detectors = segmenter_files.unpack_detectors(arrays, values["detectors"], self.classes_, scales[1], width)
        self._model = Model(segmenter_files.unpack_proposer(arrays, scales[0], width), detectors, {})
        for place, label in enumerate(self.classes_):
            if values["masks"][place]:
                name = f"masks.{place}"
                self._model.masks[label] = segmenter_files.unpack_predictor(arrays, name, scales[2], 1, width + 2)
        if not values["teachable"]:
            return
        self._digests = {int(number): int(digest) for number, digest in values["digests"].items()}
        for number, facts in values["frames"].items():
            name, widths = f"frames.{number}", (width, segmenter_files.region_width(width))
            self._frames[int(number)] = segmenter_files.unpack_frame(facts, arrays, name, widths)


def _check_ignore(ignore: Any, shape: tuple[int, int]) -> Array | None:
    if ignore is None:
        return None
    hidden = np.asarray(ignore)
    if hidden.shape != shape or hidden.dtype != bool:
        raise ValueError(f"ignore must be bool of shape {shape}, got {hidden.dtype} of shape {hidden.shape}")
    return hidden if hidden.any() else None
