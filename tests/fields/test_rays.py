"""Cameras, rays and spaces."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gyrfalcon import fields
from gyrfalcon.fields.cameras import directions_through, focus
from gyrfalcon.fields.views import look_at


def ring(count=8, radius=3.0, center=(0.5, -0.2, 0.1)):
    angles = 2 * np.pi * np.arange(count) / count
    where = np.stack([np.cos(angles), np.sin(angles), 0.4 + 0.2 * np.cos(3 * angles)], 1) * radius
    return np.stack([look_at(np.array(center) + p, np.array(center), np.array([0, 0, 1.0])) for p in where])


def pictures(count=8, size=(6, 8)):
    return np.random.default_rng(0).integers(0, 256, (count, *size, 3), dtype=np.uint8)


def test_pixels_have_their_centers_at_halves():
    """The middle of a picture of even size lies between pixels, and the ray of a pixel goes through its center."""
    intrinsics = torch.tensor([10.0, 10.0, 4.0, 3.0], dtype=torch.float64)
    d = directions_through(torch.tensor([[2.0, 3.0], [3.0, 4.0]]).double(), intrinsics, torch.eye(3).double())
    torch.testing.assert_close(d[0, :2] / -d[0, 2], torch.tensor([-0.05, 0.05]).double())
    torch.testing.assert_close(d[1, :2] / -d[1, 2], torch.tensor([0.05, -0.05]).double())
    torch.testing.assert_close(d.norm(dim=1), torch.ones(2).double())


def test_rays_carry_the_colors_of_their_pixels():
    images = pictures()
    rays = fields.Rays.from_poses(images, ring(), 10.0)
    index = 3 * 48 + 2 * 8 + 5
    bundle = rays.at(torch.tensor([index]))
    np.testing.assert_allclose(bundle.colors[0], images[3, 2, 5] / 255, atol=1e-7)
    np.testing.assert_allclose(bundle.origins[0], ring()[3, :3, 3], atol=1e-6)
    assert int(bundle.images[0]) == 3


def test_the_point_that_all_cameras_look_at_is_found():
    point = focus(torch.from_numpy(ring()))
    torch.testing.assert_close(point, torch.tensor([0.5, -0.2, 0.1]).double())
    parallel = np.tile(np.eye(4), (4, 1, 1))
    parallel[:, 0, 3] = np.arange(4)
    assert focus(torch.from_numpy(parallel)) is None


def test_the_cube_holds_what_all_pictures_show():
    rays = fields.Rays.from_poses(pictures(), ring(), 10.0)
    reach = np.linalg.norm(ring()[:, :3, 3] - np.array([0.5, -0.2, 0.1]), axis=1)
    assert rays.space.kind == "box"
    assert rays.space.radius == pytest.approx(np.median(reach) * 0.4)
    assert rays.space.near < reach.min() - rays.space.radius
    assert rays.space.far > reach.max() + rays.space.radius


def test_scenes_without_background_are_contracted_or_lie_ahead():
    assert fields.Rays.from_poses(pictures(), ring(), 10.0, background=None).space.kind == "contracted"
    ahead = np.tile(np.eye(4), (8, 1, 1))
    ahead[:, :2, 3] = np.random.default_rng(0).normal(size=(8, 2))
    assert fields.Rays.from_poses(pictures(), ahead, 10.0, background=None).space.kind == "ndc"


def test_transparent_pixels_show_the_background():
    images = np.zeros((8, 6, 8, 4), np.uint8)
    images[..., 0] = 200
    images[:, :3, :, 3] = 255
    rays = fields.Rays.from_poses(images, ring(), 10.0, background=(0.0, 1.0, 0.0))
    assert rays.images[0, 0, 0].tolist() == [200, 0, 0]
    assert rays.images[0, 5, 0].tolist() == [0, 255, 0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"focal": float("nan")}, "focal=nan must be positive: give the focal length in pixels"),
        ({"focal": -1.0}, "focal=-1.0 must be positive"),
        ({"focal": "wide"}, "focal='wide' must be a number"),
        ({"poses": np.zeros((8, 4, 4))}, r"poses\[0\] is not a rotation and a translation"),
        ({"poses": ring()[:5]}, "poses: there are 5 for 8 images"),
        ({"poses": np.full((8, 4, 4), np.nan)}, r"poses\[0\] is not a rotation"),
        ({"poses": np.zeros((8, 2))}, r"poses has shape \(8, 2\)"),
        ({"images": [np.zeros((6, 8, 3), np.uint8), np.zeros((5, 8, 3), np.uint8)]}, "images have different sizes"),
        ({"images": np.full((8, 6, 8, 3), 7.0)}, "not between 0 and 1"),
        ({"images": np.zeros((8, 6, 8))}, "give pictures of shape"),
        ({"images": []}, "give pictures of shape"),
        ({"background": "green"}, "background='green' is unknown"),
        ({"background": (2.0, 0.0, 0.0)}, "three numbers from 0 to 1"),
        ({"near": 5.0, "far": 2.0}, "near=5.0 must be less than far=2.0"),
        ({"near": -1.0}, "near=-1.0 must be a distance"),
        ({"times": [1.0] * 8}, "times are all the same"),
        ({"times": [1.0]}, "times must be 8 finite numbers"),
        ({"image_ids": [-1] * 8}, "image_ids must be 8 integers"),
        ({"space": "sphere"}, "space='sphere' is unknown"),
    ],
    ids=str,
)
def test_bad_input_is_refused_in_one_line(changes, message):
    given = {"images": pictures(), "poses": ring(), "focal": 10.0} | changes
    images, poses, focal = given.pop("images"), given.pop("poses"), given.pop("focal")
    with pytest.raises(ValueError, match=message) as error:
        fields.Rays.from_poses(images, poses, focal, **given)
    assert "\n" not in str(error.value)


def test_parallel_cameras_need_distances():
    poses = np.tile(np.eye(4), (8, 1, 1))
    poses[:, 0, 3] = np.arange(8)
    with pytest.raises(ValueError, match="near and far cannot be found"):
        fields.Rays.from_poses(pictures(), poses, 10.0)
    assert fields.Rays.from_poses(pictures(), poses, 10.0, near=1.0, far=4.0).space.kind == "box"


points = st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3)


@given(points)
def test_contraction_stays_inside_and_inverts(point):
    x = torch.tensor([point], dtype=torch.float64)
    inside = fields.contract(x)
    assert float(inside.abs().max()) < 2
    torch.testing.assert_close(fields.uncontract(inside), x, rtol=1e-9, atol=1e-9)


@given(points, st.floats(1e-9, 1e-6))
def test_contraction_is_continuous(point, step):
    """Its slope is at most one in the maximum norm, also across the cube where it begins."""
    x = torch.tensor([point], dtype=torch.float64)
    size = x.abs().max().clamp(min=1e-12)
    for start in (x, x / size):  # the second lies on the border
        moved = fields.contract(start * (1 + step)) - fields.contract(start)
        assert float(moved.abs().max()) <= 3 * step * float(start.abs().max()) + 1e-12


def test_normalized_device_coordinates_keep_points_on_their_rays():
    generator = torch.Generator().manual_seed(0)
    origins = 0.1 * torch.randn(20, 3, generator=generator, dtype=torch.float64)
    directions = torch.randn(20, 3, generator=generator, dtype=torch.float64) * 0.2
    directions[:, 2] = -1
    o, d = fields.normalized_device_rays(origins, directions, (40.0, 30.0), (60, 80), 1.0)
    at = origins + 3.7 * directions  # some point of the world, projected
    projected = torch.stack([-at[:, 0] / at[:, 2], -at[:, 1] / at[:, 2] * 30 / 30, 1 + 2 / at[:, 2]], 1)
    t = (projected[:, 2] - o[:, 2]) / d[:, 2]
    assert bool(((t > 0) & (t < 1)).all())
    torch.testing.assert_close(o + t[:, None] * d, projected, rtol=1e-10, atol=1e-10)
