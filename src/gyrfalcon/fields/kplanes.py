"""K-planes: a radiance field as products of planes."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from gyrfalcon.arrays import Array
from gyrfalcon.checkpoints import Checkpoint
from gyrfalcon.estimators.fingerprint import fingerprint
from gyrfalcon.estimators.interrupts import warn_of_interrupt
from gyrfalcon.persistence import Savable, State
from gyrfalcon.progress import Bar
from gyrfalcon.threads import one_thread_each

from . import files
from .adaptation import adapted_code
from .building import check, check_rays, new_field
from .cameras import check_poses
from .draws import Draws
from .field import Field
from .layout import PenaltyWeights
from .rays import Rays
from .stage import Stage
from .training import Goals, Record, Trainer
from .video import write_video
from .views import picture, turn_around

DEFAULT_MINUTES = 5.0


class KPlanes(Savable, BaseEstimator):  # type: ignore[misc]
    """A radiance field as products of planes (Fridovich-Keil, Meanti et al. 2023), trained on the processor.

    A point q of a scene in d dimensions has the features

        f(q) = ∏_c ψ(P_c, π_c(q)),

    where P_c are planes over all pairs of axes, π_c(q) the two coordinates of q on one of them, and ψ is bilinear
    interpolation; features of several scales stand side by side. Static scenes have three planes a scale, moving ones
    three more over space and time. The decoder makes of them a density exp⟨f(q), b_σ⟩ and colors sigmoid⟨f(q), b(d)⟩ in
    a basis that is learned as a function of the direction d ("explicit"), or does so by small networks ("hybrid").

    Parameters
    ----------
    resolutions : tuple of int
        Nodes along each axis of space, for each scale.
    features : int
        Of each plane. Multiples of 16 are fastest.
    decoder : {"explicit", "hybrid"}
    combine : {"product", "sum"}
        How the planes of a scale are combined.
    sampler : {"occupancy", "proposal"}
        Look along rays where a grid of cells is occupied, or where two small fields propose to. The first is faster,
        the second suits scenes without empty space.
    times : int, optional
        Nodes along the time, for rays with times.
    variation : float
        Weight of the total variation of planes in space.
    time_smoothness : float
        Weight of squared second differences in time.
    transients : float
        Weight of the sum of distances to one over all entries of the planes of time, which makes what never moves
        leave them. About 1e-6 for a million entries.
    distortion : float
        Weight of the distortion loss, which gathers the weights along rays.
    appearance : int, optional
        Numbers of the vector that each picture has for itself, which changes colors but not densities.
    importance : {"uniform", "time"}
        Whether the last rays of training are drawn by how much their colors change with time. Needs cameras that stand
        still.
    device : str, optional
        Of PyTorch; "cpu" by default, where the compiled core serves.
    verbose : bool
        Show a bar with the PSNR.
    random_state : int, RandomState or None

    Attributes
    ----------
    record_ : Record
        Steps, seconds and PSNR of training rays.
    n_parameters_ : int

    Examples
    --------
    >>> from gyrfalcon import fields
    >>> scene = fields.moving_spheres(views=8, size=24, moving=False)
    >>> rays = fields.Rays.from_poses(scene.images, scene.poses, scene.focal)
    >>> model = fields.KPlanes(resolutions=(16, 32), features=8, random_state=0).fit(rays, steps=60)
    >>> rgb, depth, opacity = model.render(scene.poses[0])
    >>> rgb.shape, depth.shape
    ((24, 24, 3), (24, 24))
    """

    record_: Record
    n_parameters_: int
    _field: Field

    def __init__(
        self,
        resolutions: tuple[int, ...] = (64, 128, 256),
        features: int = 16,
        *,
        decoder: str = "explicit",
        combine: str = "product",
        sampler: str = "occupancy",
        times: int | None = None,
        variation: float = 1e-4,
        time_smoothness: float = 0.0,
        transients: float = 0.0,
        distortion: float = 0.0,
        appearance: int | None = None,
        importance: str = "uniform",
        device: str | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ):
        self.resolutions = resolutions
        self.features = features
        self.decoder = decoder
        self.combine = combine
        self.sampler = sampler
        self.times = times
        self.variation = variation
        self.time_smoothness = time_smoothness
        self.transients = transients
        self.distortion = distortion
        self.appearance = appearance
        self.importance = importance
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    @one_thread_each
    def fit(
        self,
        rays: Rays,
        *,
        minutes: float | None = None,
        steps: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn the field that explains the colors of rays.

        Parameters
        ----------
        rays : Rays
        minutes, steps : float, int, optional
            How long to train; five minutes by default. Only a number of steps gives the same bits every time.
        checkpoint : path, optional
            A folder. A fit that was cut short there, even by a kill, goes on where it was.
        """
        check(self, rays)
        goals = self._goals(minutes, steps)
        random = check_random_state(self.random_state)
        facts = {"seed": int(random.randint(np.iinfo(np.int32).max))}
        kept = None
        if checkpoint is not None:
            kept = Checkpoint(checkpoint, fingerprint(self, {"rays": rays, "steps": steps, "minutes": minutes}))
            facts = kept.begin(facts)
        generator = torch.Generator().manual_seed(facts["seed"])
        field = new_field(self, rays, generator)
        trainer = Trainer(field, Draws.of(rays, self.importance), goals, generator)
        found = None if kept is None else kept.load("solver")
        if found is not None:
            trainer.take(*found)
        whole = self._train(trainer, kept)
        self._keep(field, rays, trainer.record)
        if kept is not None and whole:
            kept.clear()
        return self

    def _goals(self, minutes: float | None, steps: int | None) -> Goals:
        if minutes is not None and steps is not None:
            raise ValueError(f"minutes={minutes!r} and steps={steps!r} exclude each other: give one of them")
        if minutes is not None and not (
            isinstance(minutes, int | float | np.number) and math.isfinite(minutes) and minutes > 0
        ):
            raise ValueError(f"minutes={minutes!r} must be positive")
        if steps is not None and not (
            isinstance(steps, int | np.integer) and not isinstance(steps, bool) and steps > 0
        ):
            raise ValueError(f"steps={steps!r} must be a positive integer")
        if steps is None:
            minutes = DEFAULT_MINUTES if minutes is None else minutes
        weights = PenaltyWeights(self.variation, self.time_smoothness, self.transients)
        return Goals(steps, None if minutes is None else 60 * minutes, weights, self.distortion)

    def _train(self, trainer: Trainer, kept: Checkpoint | None) -> bool:
        """Train to the end; False if the user has interrupted it."""
        goals = trainer.goals
        total = goals.steps if goals.steps is not None else round(goals.seconds or 0)
        with Bar("training", verbose=self.verbose, total=total) as bar:
            try:
                while trainer.progress < 1:
                    trainer.step()
                    done = trainer.count if goals.steps is not None else int(trainer.seconds)
                    bar.show(total, f"{trainer.psnr:.2f} dB", min(done, total))
                    if kept is not None:
                        kept.keep("solver", trainer.pack)
            except KeyboardInterrupt:
                if trainer.count == 0:
                    raise
                if kept is not None and not trainer.stepping:  # else the last that was kept stands
                    kept.save("solver", *trainer.pack())
                warn_of_interrupt(f"{trainer.count} steps")
        whole = trainer.progress >= 1
        trainer.finish()
        return whole

    def _keep(self, field: Field, rays: Rays, record: Record) -> None:
        self._field, self.record_ = field, record
        self._cameras = files.Cameras.of(rays)
        self._code: Tensor | None = None
        self.n_parameters_ = field.size

    @one_thread_each
    def render(
        self,
        pose: Any,
        shape: tuple[int, int] | None = None,
        *,
        time: float | None = None,
        appearance: Any = None,
        wanted: Callable[[], bool] | None = None,
    ) -> tuple[Array, Array, Array]:
        """Colors of shape (height, width, 3), and depths and opacities of shape (height, width), as a camera sees them.

        Parameters
        ----------
        pose : array of shape (4, 4)
            From camera to world.
        shape : pair of int, optional
            Height and width; those of the training pictures by default. The field of view is theirs too.
        time : float, optional
            In the unit of the training pictures, of a field with times.
        appearance : int or array, optional
            The picture whose appearance to take, by its number, or an appearance vector. By default the adapted one if
            there is one, and else the mean.
        wanted : callable, optional
            Asked again and again while the picture is made. Where it returns False, UnwantedError ends the work.
        """
        check_is_fitted(self)
        matrix = check_poses([np.asarray(pose, dtype=np.float64)], "pose")[0]
        size = self._cameras.shape if shape is None else (int(shape[0]), int(shape[1]))
        if min(size) < 1:
            raise ValueError(f"shape={shape!r} must be a positive height and width")
        intrinsics = self._cameras.intrinsics_for(size)
        code = self._appearance(appearance)
        return picture(self._field, matrix, intrinsics, size, self._time(time), code, wanted)

    def stage(self) -> Stage:
        """Where the training pictures stood and what can be chosen, for a viewer."""
        check_is_fitted(self)
        cameras, space, codes = self._cameras, self._field.space, self._field.codes
        pose = cameras.pose.numpy()
        center = np.asarray(space.center)
        if space.kind == "ndc":  # a point ahead of cameras that all look one way
            center = pose[:3, 3] - 2 * space.near * pose[:3, 2]
        moves = self._field.layout.axes == 4
        return Stage(
            pose.tolist(),
            center.tolist(),
            cameras.up.tolist(),
            cameras.shape,
            cameras.time_range if moves else None,
            0 if codes is None else len(codes),
        )

    def depth(self, pose: Any, shape: tuple[int, int] | None = None, *, time: float | None = None) -> Array:
        """Mean distances from the camera of what is seen, for each pixel; see `render`."""
        return self.render(pose, shape, time=time)[1]

    def _time(self, time: float | None) -> float | None:
        if not self._field.layout.timed:
            if time is not None:
                raise ValueError(f"time={time!r}: this field does not move: leave it out")
            return None
        low, high = self._cameras.time_range
        if time is None:
            return 0.0
        if not low <= time <= high:
            raise ValueError(f"time={time!r} is outside of the training pictures, which are from {low:g} to {high:g}")
        return (float(time) - low) / (high - low)

    def _appearance(self, appearance: Any) -> Tensor | None:
        codes = self._field.codes
        if codes is None:
            if appearance is not None:
                raise ValueError(f"appearance={appearance!r}: this field has none: fit KPlanes(appearance=32)")
            return None
        if appearance is None:
            return codes.mean(0) if self._code is None else self._code
        if isinstance(appearance, int | np.integer):
            if not 0 <= appearance < len(codes):
                raise ValueError(f"appearance={appearance!r} must be a number below {len(codes)}, or a vector")
            return codes[int(appearance)]
        vector = torch.as_tensor(np.asarray(appearance, dtype=np.float32)).ravel()
        if vector.shape != codes.shape[1:] or not bool(vector.isfinite().all()):
            raise ValueError(f"appearance must have {codes.shape[1]} finite numbers")
        return vector

    @one_thread_each
    def adapt(self, rays: Rays, *, steps: int = 200) -> Self:
        """A copy whose appearance is that of some pictures, or of parts of pictures; planes and decoder stay.

        Parameters
        ----------
        rays : Rays
            All of them share one appearance. Give `center` to `Rays.from_poses` for parts of pictures.
        steps : int
            Of Adam, on the appearance vector alone.
        """
        check_is_fitted(self)
        if self._field.codes is None:
            raise ValueError("adapt: this field has no appearance: fit KPlanes(appearance=32)")
        check_rays(rays)
        if rays.times is not None:
            raise ValueError("adapt: takes rays without times")
        other = copy.copy(self)
        start = self._appearance(None)
        assert start is not None
        other._code = adapted_code(self._field, rays, start, steps, seed=0)
        return other

    def static(self) -> Self:
        """A copy without the planes of time: what never moves."""
        check_is_fitted(self)
        other = copy.copy(self)
        other._field = files.without_time(self._field)
        other.times = None
        other.n_parameters_ = other._field.size
        return other

    def plane(self, axes: str, scale: int = -1) -> Array:
        """The mean over features of a plane, such as "xy" or "xt", of shape (second axis, first axis).

        Parameters
        ----------
        axes : str
            The names of two of the axes x, y, z and t.
        scale : int
            Its place in `resolutions`.
        """
        check_is_fitted(self)
        layout = self._field.layout
        if scale not in range(-len(layout.sizes), len(layout.sizes)):
            raise ValueError(f"scale={scale!r} must be a place in resolutions={self.resolutions!r}")
        scale = range(len(layout.sizes))[scale]
        for plane, view in layout.views(self._field.planes):
            if plane.scale == scale and plane.name == axes:
                return view.mean(2).cpu().numpy()
        names = ", ".join(plane.name for plane in layout.planes if plane.scale == 0)
        raise ValueError(f"axes={axes!r} is none of the planes: use one of {names}")

    def video(
        self,
        path: str | os.PathLike[str],
        poses: Iterable[Any] | None = None,
        *,
        frames: int = 60,
        shape: tuple[int, int] | None = None,
        fps: int = 25,
    ) -> None:
        """Write a film: once around the scene, from its first to its last time, or from the poses that are given.

        Parameters
        ----------
        path : path of an .mp4 file
        poses : arrays of shape (4, 4), optional
        frames : int
            How many, if no poses are given.
        shape : pair of int, optional
            Height and width, which must be even.
        fps : int
        """
        check_is_fitted(self)
        if poses is None:
            if frames < 1:
                raise ValueError(f"frames={frames!r} must be positive")
            center = np.asarray(self._field.space.center)
            poses = turn_around(center, self._cameras.pose.numpy(), frames, self._cameras.up.numpy())
        views = list(poses)
        if not views:
            raise ValueError("poses: a film needs one at least")
        low, high = self._cameras.time_range
        moves = self._field.layout.timed
        times = np.linspace(low, high, len(views)) if moves else [None] * len(views)
        size = self._cameras.shape if shape is None else shape
        write_video(path, (self.render(pose, size, time=time)[0] for pose, time in zip(views, times, strict=True)), fps)

    def _describe_parameter(self, name: str, value: Any) -> Any:
        return [int(r) for r in value] if name == "resolutions" else super()._describe_parameter(name, value)

    def _read_parameter(self, name: str, value: Any) -> Any:
        return tuple(value) if name == "resolutions" else super()._read_parameter(name, value)

    def _state(self) -> State:
        check_is_fitted(self)
        return files.pack(self._field, self._cameras, self.record_, self._code)

    def _set_state(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        self._field, self._cameras, self.record_, self._code = files.unpack(self, values, arrays)
        self.n_parameters_ = self._field.size

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_field")


def load(path: str | os.PathLike[str]) -> KPlanes:
    """Read a field that `KPlanes.save` wrote.

    Parameters
    ----------
    path : path of a safetensors file

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from gyrfalcon import fields
    >>> scene = fields.moving_spheres(views=4, size=8, moving=False)
    >>> rays = fields.Rays.from_poses(scene.images, scene.poses, scene.focal)
    >>> model = fields.KPlanes(resolutions=(8,), features=4, random_state=0).fit(rays, steps=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(pathlib.Path(folder, "scene.safetensors"))
    ...     again = fields.load(pathlib.Path(folder, "scene.safetensors"))
    >>> bool((again.render(scene.poses[0])[0] == model.render(scene.poses[0])[0]).all())
    True
    """
    return KPlanes.load(path)
