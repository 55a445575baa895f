"""Where to stand in a field, and what can be chosen there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """Where to stand in a field, and what can be chosen there: what a viewer has to know.

    Attributes
    ----------
    pose : nested list of shape (4, 4)
        Where the camera stands at first, from camera to world.
    center : list of float
        What the camera turns around.
    up : list of float
        The direction that is up.
    shape : pair of int
        Height and width of the training pictures, whose proportions the viewer keeps.
    times : pair of float, optional
        The first and the last time of a field that moves.
    appearances : int
        How many appearances there are to choose from.

    Examples
    --------
    >>> from gyrfalcon import fields
    >>> scene = fields.moving_spheres(views=4, size=8, moving=False)
    >>> rays = fields.Rays.from_poses(scene.images, scene.poses, scene.focal)
    >>> stage = fields.KPlanes(resolutions=(8,), features=8, random_state=0).fit(rays, steps=1).stage()
    >>> stage.shape, stage.times, stage.appearances
    ((8, 8), None, 0)
    """

    pose: list[list[float]]
    center: list[float]
    up: list[float]
    shape: tuple[int, int]
    times: tuple[float, float] | None = None
    appearances: int = 0
