"""Frames of a robot's sensors: read, and looked at before anything is learned from them."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def stack_frames(parts: tuple[Any, ...], joints: int | None) -> Array:
    """Positions, velocities and so on of frames, of shape (n, parts, joints).

    >>> stack_frames(([0.0, 1.0], [2.0, 3.0]), None).shape  # one frame of two joints
    (1, 2, 2)
    """
    read = [np.atleast_2d(np.asarray(part, dtype=np.float64)) for part in parts]
    shapes = {part.shape for part in read}
    joints = read[0].shape[-1] if joints is None else joints
    if len(shapes) != 1 or read[0].ndim != 2 or read[0].shape[1] != joints:
        raise ValueError(f"q, dq, ddq and tau must have the same shape (n, {joints}), got {sorted(shapes)}")
    return np.stack(read, axis=1)


def sound_frames(frames: Array, last: Array | None) -> tuple[Array, int, int]:
    """Frames to learn from; how many were broken; how many repeated the one before, which sensors do when they freeze.

    >>> frames = np.array([1.0, 1.0, np.nan, 2.0]).reshape(4, 1, 1)
    >>> kept, broken, frozen = sound_frames(frames, None)
    >>> kept.ravel().tolist(), broken, frozen
    ([1.0, 2.0], 1, 1)
    """
    finite = np.isfinite(frames).all((1, 2))
    first = np.full(frames.shape[1:], np.nan) if last is None else last
    before = np.concatenate([[first], frames[:-1]])
    frozen = finite & (frames == before).all((1, 2))
    return frames[finite & ~frozen], int((~finite).sum()), int(frozen.sum())


def joint_scale(scale: Any, tau: Array) -> Array:
    """What torques of each joint are divided by: numbers that were given, or the deviations of some frames."""
    joints = tau.shape[1]
    if isinstance(scale, str):
        if scale != "auto":
            raise ValueError(f"scale must be 'auto' or one number for each joint, got {scale!r}")
        spread = tau.std(0) if len(tau) > 1 else np.abs(tau[0])
        return np.where(spread > 0, spread, 1.0)
    values = np.broadcast_to(np.asarray(scale, dtype=np.float64), (joints,)).copy()
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError(f"scale must be positive, got {scale!r}")
    return values
