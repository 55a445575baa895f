"""Fields as users meet them: fit, render, files, interrupts, kills, and what is refused."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
import torch
from sklearn.base import clone

import gyrfalcon as gf
from gyrfalcon import checkpoints, fields, persistence
from gyrfalcon.estimators import Interrupted
from gyrfalcon.fields import building, proposals, training
from gyrfalcon.fields.layout import Layout
from gyrfalcon.fields.torch_engine import TorchEngine
from gyrfalcon.fields.training import Trainer
from gyrfalcon.persistence import ModelFileError

SMALL = {"resolutions": (8, 16), "features": 4, "random_state": 0}


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch):
    """Steps of few samples: tests need many steps, not good pictures."""
    monkeypatch.setattr(training, "SAMPLES_PER_STEP", 1 << 12)
    monkeypatch.setattr(proposals, "RESOLUTIONS", (8, 16))
    monkeypatch.setattr(proposals, "COUNTS", (32, 24))
    monkeypatch.setattr(proposals, "LAST_COUNT", 16)


def psnr(found, image):
    return -10 * np.log10(np.mean((found - image / 255) ** 2))


@pytest.fixture(scope="module")
def still():
    return fields.moving_spheres(views=12, size=24, moving=False)


@pytest.fixture(scope="module")
def film():
    return fields.moving_spheres(views=24, size=20)


def rays_of(scene, **options):
    return fields.Rays.from_poses(scene.images, scene.poses, scene.focal, times=scene.times, **options)


@pytest.fixture
def moving(film):
    model = fields.KPlanes(times=6, time_smoothness=1e-2, transients=3e-6, **SMALL)
    return model.fit(rays_of(film), steps=150)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"decoder": "hybrid"},
        {"sampler": "proposal"},
        {"combine": "sum"},
        {"distortion": 1e-3},
        {"appearance": 4},
    ],
    ids=str,
)
def test_every_kind_of_field_learns(still, options):
    """A few steps of any kind of field do better than the best constant picture."""
    model = fields.KPlanes(**SMALL | options).fit(rays_of(still), steps=120)
    constant = max(psnr(np.full(3, value), still.images) for value in np.linspace(0.5, 1, 26))
    assert model.record_.psnr[-1] > constant + 2
    rgb, depth, opacity = model.render(still.poses[0])
    assert psnr(rgb, still.images[0]) > constant + 2
    assert rgb.shape == (24, 24, 3)
    assert depth.shape == opacity.shape == (24, 24)
    assert 0 <= opacity.min() <= opacity.max() <= 1 + 1e-6
    assert model.n_parameters_ < 30_000


def test_depth_is_the_distance_along_the_ray(still):
    model = fields.KPlanes(**SMALL).fit(rays_of(still), steps=150)
    depth, opacity = model.depth(still.poses[0]), model.render(still.poses[0])[2]
    known = np.isfinite(still.depths[0]) & (opacity > 0.5)
    assert known.mean() > 0.1
    assert np.median(np.abs(depth - still.depths[0])[known]) < 0.3


def test_the_default_has_at_most_five_million_parameters(still):
    layout = Layout(((64,) * 3, (128,) * 3, (256,) * 3), 16)
    assert fields.KPlanes().resolutions == (64, 128, 256)
    assert layout.parameters == 3 * 16 * (64**2 + 128**2 + 256**2) < 5_000_000


def test_time_planes_at_one_reproduce_the_static_model(moving, film):
    """Interpolation is exact where all nodes are the same, so that not one bit differs."""
    field = moving._field
    ones = field.planes.clone()
    for plane, view in field.layout.views(ones):
        if field.layout.is_time(plane):
            view.fill_(1)
    frozen = fields.KPlanes(times=6, **SMALL)
    frozen.__dict__.update(moving.__dict__)
    frozen._field = dataclasses.replace(field, planes=ones)
    for pose in film.poses[:3]:
        for a, b in zip(frozen.render(pose, time=0.3), moving.static().render(pose), strict=True):
            np.testing.assert_array_equal(a, b)


def test_pictures_of_planes(moving):
    assert moving.plane("xy").shape == (16, 16)
    assert moving.plane("xt").shape == (6, 16)
    assert moving.plane("zt", scale=0).shape == (6, 8)
    with pytest.raises(ValueError, match=r"axes='tx' is none of the planes: use one of xy, xz, xt, yz, yt, zt"):
        moving.plane("tx")


def test_moving_fields_move(moving, film):
    early, late = (moving.render(film.poses[0], time=t)[0] for t in (0.0, 0.5))
    assert np.abs(early - late).max() > 1e-3
    with pytest.raises(ValueError, match=r"time=2.0 is outside of the training pictures, which are from 0 to 1"):
        moving.render(film.poses[0], time=2.0)


def test_appearance_changes_colors_and_not_one_bit_of_densities(still):
    tinted = still.images.copy()
    tinted[::2, ..., 2] //= 2
    rays = fields.Rays.from_poses(tinted, still.poses, still.focal, image_ids=np.arange(12))
    model = fields.KPlanes(appearance=4, **SMALL).fit(rays, steps=150)
    one, other = (model.render(still.poses[3], appearance=i) for i in (0, 1))
    np.testing.assert_array_equal(one[1], other[1])
    np.testing.assert_array_equal(one[2], other[2])
    seen = one[2] > 0.5
    assert other[0][seen, 2].mean() > one[0][seen, 2].mean() + 0.05
    half = fields.Rays.from_poses(tinted[2:3, :, :12], still.poses[2:3], still.focal, center=(12, 12), near=1, far=5)
    adapted = model.adapt(half, steps=60)
    right = np.s_[:, 12:]
    given = tinted[2][right]
    assert psnr(adapted.render(still.poses[2])[0][right], given) > psnr(model.render(still.poses[2])[0][right], given)
    np.testing.assert_array_equal(adapted.render(still.poses[2])[2], model.render(still.poses[2])[2])


def test_files_hold_everything_that_pictures_need(still, moving, film, tmp_path):
    other = fields.KPlanes(sampler="proposal", decoder="hybrid", appearance=2, **SMALL)
    for number, (model, scene, options) in enumerate(
        [
            (moving, film, {"time": 0.4}),
            (moving.static(), film, {}),
            (other.fit(rays_of(still), steps=2), still, {}),
        ]
    ):
        path = tmp_path / f"{number}.safetensors"
        model.save(path)
        again = fields.load(path)
        for a, b in zip(model.render(scene.poses[1], **options), again.render(scene.poses[1], **options), strict=True):
            np.testing.assert_array_equal(a, b)
        assert again.get_params() == model.get_params()
        assert isinstance(gf.load(path), fields.KPlanes)
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="damaged"):
        fields.load(path)


def test_the_same_seed_gives_the_same_bits_on_one_and_two_threads(still):
    rays = rays_of(still)
    before = torch.get_num_threads()
    try:
        planes = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            planes.append(fields.KPlanes(**SMALL).fit(rays, steps=40)._field.planes)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*planes)
    assert not torch.equal(planes[0], fields.KPlanes(**SMALL | {"random_state": 1}).fit(rays, steps=40)._field.planes)


def test_an_interrupt_keeps_what_was_reached(still, monkeypatch):
    step = Trainer.step

    def interrupted(self):
        if self.count == 7:
            raise KeyboardInterrupt
        step(self)

    monkeypatch.setattr(Trainer, "step", interrupted)
    with pytest.warns(Interrupted, match="interrupted after 7 steps") as warned:
        model = fields.KPlanes(**SMALL).fit(rays_of(still), steps=1000)
    assert {warning.filename for warning in warned if warning.category is Interrupted} == {__file__}
    assert model.record_.steps == [1, 2, 4, 7]
    assert model.render(still.poses[0])[0].shape == (24, 24, 3)


@pytest.mark.parametrize("within", [False, True])
def test_an_interrupted_fit_resumes_bit_for_bit(still, monkeypatch, tmp_path, within):
    rays, part = rays_of(still), "_update" if within else "step"
    done = getattr(Trainer, part)

    def interrupted(self, *given):
        if self.count == 7:
            raise KeyboardInterrupt
        done(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, part, interrupted)
        patch.setattr(checkpoints, "EVERY_SECONDS", 0.0)
        patch.setattr(checkpoints, "PAUSE", 0)
        with pytest.warns(Interrupted, match="after 7 steps"):
            fields.KPlanes(**SMALL).fit(rays, steps=12, checkpoint=tmp_path)
    seen, take = [], Trainer.take
    monkeypatch.setattr(Trainer, "take", lambda self, *given: (take(self, *given), seen.append(self.count)))
    resumed = fields.KPlanes(**SMALL).fit(rays, steps=12, checkpoint=tmp_path)
    assert seen == [7]
    assert torch.equal(resumed._field.planes, fields.KPlanes(**SMALL).fit(rays, steps=12)._field.planes)


def test_a_checkpoint_of_other_rays_is_refused(still, monkeypatch, tmp_path):
    def interrupted(self):
        self.count += 1
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", interrupted)
        with pytest.warns(Interrupted):
            fields.KPlanes(**SMALL).fit(rays_of(still), steps=12, checkpoint=tmp_path)
    wider = fields.Rays.from_poses(still.images, still.poses, 0.5 * still.focal)
    with pytest.raises(checkpoints.CheckpointError, match="differs in rays"):
        fields.KPlanes(**SMALL).fit(wider, steps=12, checkpoint=tmp_path)


def test_files_that_do_not_fit_or_are_for_another_machine_are_refused(still, tmp_path):
    path = tmp_path / "field.safetensors"
    fields.KPlanes(**SMALL).fit(rays_of(still), steps=2).save(path)
    description, arrays = persistence.parse(path.read_bytes())

    def altered(parameters, **changes):
        changed = description | {"parameters": description["parameters"] | parameters}
        path.write_bytes(persistence.compose(changed, arrays | changes))
        with pytest.raises(persistence.ModelFileError) as refused:
            fields.load(path)
        return str(refused.value)

    assert "device='nowhere'" in altered({"device": "nowhere"})
    assert "times=40000 must be" in altered({"sampler": "proposal", "times": 40_000})
    assert "single precision" in altered({}, planes=arrays["planes"].astype(np.float64))
    assert "do not fit" in altered({}, code=np.zeros(3, np.float32))


def test_no_pictures_are_refused(still):
    rays = rays_of(still)
    with pytest.raises(ValueError, match="rays are of no pictures"):
        fields.KPlanes(**SMALL).fit(rays.subset(np.zeros(len(rays), bool)), steps=2)


KILLED = """
import sys, time
from gyrfalcon import checkpoints, fields
from gyrfalcon.fields import building, proposals, training
training.SAMPLES_PER_STEP, proposals.RESOLUTIONS = {samples}, {resolutions}
proposals.COUNTS, proposals.LAST_COUNT = {counts}, {last}
checkpoints.EVERY_SECONDS, checkpoints.PAUSE = 0.0, 0
step = training.Trainer.step
def slowly(self):
    if self.count == 9:
        print("nine steps", flush=True)
        time.sleep(600)
    step(self)
training.Trainer.step = slowly
scene = fields.moving_spheres(views=6, size=16, moving={moving})
rays = fields.Rays.from_poses(scene.images, scene.poses, scene.focal, times=scene.times)
fields.KPlanes((8, 16), 4, random_state=0, **{options}).fit(rays, steps=24, checkpoint=sys.argv[1])
"""


@pytest.mark.parametrize(
    ("moving", "options"),
    [(False, {"appearance": 3}), (True, {"times": 5, "sampler": "proposal", "decoder": "hybrid"})],
    ids=["static", "moving"],
)
def test_a_killed_fit_resumes_bit_for_bit(tmp_path, moving, options):
    constants = {"samples": training.SAMPLES_PER_STEP, "resolutions": proposals.RESOLUTIONS}
    constants |= {"counts": proposals.COUNTS, "last": proposals.LAST_COUNT}
    code = KILLED.format(moving=moving, options=options, **constants)
    victim = subprocess.Popen([sys.executable, "-W", "error", "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert victim.stdout.readline() == b"nine steps\n"
    victim.kill()
    victim.communicate()
    assert (tmp_path / "gyrfalcon-solver.safetensors").exists()
    scene = fields.moving_spheres(views=6, size=16, moving=moving)
    model, rays = fields.KPlanes((8, 16), 4, random_state=0, **options), rays_of(scene)
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        take = Trainer.take
        patch.setattr(Trainer, "take", lambda self, *given: (take(self, *given), seen.append(self.count)))
        resumed = clone(model).fit(rays, steps=24, checkpoint=tmp_path)
    whole = clone(model).fit(rays, steps=24)
    assert seen == [9]
    assert torch.equal(whole._field.planes, resumed._field.planes)
    assert torch.equal(whole._field.numbers, resumed._field.numbers)
    assert whole.record_.psnr == resumed.record_.psnr
    assert not list(tmp_path.glob("*.safetensors"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resolutions": (1,)}, r"resolutions=\(1,\) must be integers from 2"),
        ({"resolutions": ()}, r"resolutions=\(\) must be integers"),
        ({"resolutions": 16}, r"resolutions=16 must be integers"),
        ({"resolutions": (1 << 15,), "features": 512}, r"training takes \d.* GB are free: choose smaller resolutions"),
        ({"features": 0}, "features=0 must be an integer of at least 1"),
        ({"decoder": "linear"}, "decoder='linear' is unknown: use one of 'explicit', 'hybrid'"),
        ({"sampler": "uniform"}, "sampler='uniform' is unknown"),
        ({"combine": "max"}, "combine='max' is unknown"),
        ({"variation": -1.0}, "variation=-1.0 must be a number that is not negative"),
        ({"times": 5}, "times=5: the rays have no times"),
        ({"transients": 1e-4}, "transients=0.0001 is for fields with times"),
        ({"importance": "time"}, "importance='time' is for fields with times"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(still, options, message):
    with pytest.raises(ValueError, match=message):
        fields.KPlanes(**SMALL | options).fit(rays_of(still), steps=1)


def test_fits_that_mean_nothing_are_refused(still, film):
    model, rays = fields.KPlanes(**SMALL), rays_of(still)
    with pytest.raises(ValueError, match="exclude each other"):
        model.fit(rays, steps=1, minutes=1)
    for wrong in ({"steps": 0}, {"steps": True}, {"minutes": float("nan")}, {"minutes": -1}, {"minutes": "5"}):
        with pytest.raises(ValueError, match="must be"):
            model.fit(rays, **wrong)
    with pytest.raises(TypeError, match="rays is a ndarray: make Rays"):
        model.fit(still.images)
    with pytest.raises(ValueError, match="the rays have times: say how many nodes"):
        model.fit(rays_of(film), steps=1)
    with pytest.raises(ValueError, match="needs cameras that stand still"):
        fields.KPlanes(times=5, importance="time", **SMALL).fit(rays_of(film), steps=1)
    model.fit(rays, steps=1)
    with pytest.raises(ValueError, match="this field does not move"):
        model.render(still.poses[0], time=0.0)
    with pytest.raises(ValueError, match="scale=2 must be a place in resolutions"):
        model.plane("xy", 2)
    for wrong, message in (({"frames": 0}, "frames=0"), ({"poses": []}, "a film needs one")):
        with pytest.raises(ValueError, match=message):
            model.video("never.mp4", **wrong)
    with pytest.raises(ValueError, match="near=None must be a distance"):
        fields.Rays.from_poses(still.images, still.poses, still.focal, near=None)
    with pytest.raises(ValueError, match="this field has none"):
        model.render(still.poses[0], appearance=0)
    with pytest.raises(ValueError, match="no appearance"):
        model.adapt(rays)


def test_importance_in_time_draws_rays_that_change():
    scene = fields.moving_spheres(views=3, size=16, frames=5)
    rays = rays_of(scene)
    from gyrfalcon.fields.draws import Draws, changes

    change = changes(rays)
    assert change.shape == (15, 16, 16)
    spread = np.abs(scene.images.reshape(3, 5, 16, 16, 3) / 255.0 - scene.images[::5, None] / 255.0).max((1, 4)).max(0)
    assert float(change.max()) > 10 * float(change.min())
    draws = Draws.of(rays, "time")
    late = draws.draw(2000, 0.9, torch.Generator().manual_seed(0), torch.zeros(1))
    early = draws.draw(2000, 0.1, torch.Generator().manual_seed(0), torch.zeros(1))
    assert spread.shape == (16, 16)
    assert float((late.colors < 0.99).float().mean()) > float((early.colors < 0.99).float().mean())
    model = fields.KPlanes(times=5, importance="time", **SMALL).fit(rays, steps=20)
    assert np.isfinite(model.record_.psnr[-1])


def test_the_engine_of_pytorch_trains_alike(still, monkeypatch):
    """Rays that are opaque are followed further there, and sums have another order: no more than that differs."""
    native = fields.KPlanes(**SMALL).fit(rays_of(still), steps=12)
    monkeypatch.setattr(building, "engine_for", lambda device: TorchEngine())
    torch_alone = fields.KPlanes(**SMALL).fit(rays_of(still), steps=12)
    assert isinstance(torch_alone._field.engine, TorchEngine)
    assert torch_alone.record_.psnr == pytest.approx(native.record_.psnr, abs=0.02)
    one, other = (model.render(still.poses[0])[0] for model in (native, torch_alone))
    assert np.abs(one - other).max() < 0.05


@pytest.mark.parametrize("sampler", ["occupancy", "proposal"])
def test_unbounded_space(still, sampler):
    rays = fields.Rays.from_poses(still.images, still.poses, still.focal, background=None)
    assert rays.space.contracted
    model = fields.KPlanes(sampler=sampler, **SMALL).fit(rays, steps=60)
    assert model.record_.psnr[-1] > model.record_.psnr[0] + 3
    rgb, depth, opacity = model.render(still.poses[1])
    assert all(np.isfinite(values).all() for values in (rgb, depth, opacity))


@pytest.mark.parametrize("sampler", ["occupancy", "proposal"])
def test_scenes_that_lie_ahead(sampler):
    random = np.random.default_rng(0)
    poses = np.tile(np.eye(4), (6, 1, 1))
    poses[:, :2, 3] = random.normal(size=(6, 2)) * 0.2
    images = np.full((6, 12, 16, 3), (200, 90, 30), np.uint8)
    rays = fields.Rays.from_poses(images, poses, 14.0, background=None, near=1.0)
    model = fields.KPlanes(sampler=sampler, **SMALL).fit(rays, steps=150)
    assert model.record_.psnr[-1] > model.record_.psnr[0] + 5
    depth = model.depth(poses[0])
    assert np.isfinite(depth).all()
    assert depth.min() > 0.9


def test_the_last_step_is_recorded_once(still):
    assert fields.KPlanes(**SMALL).fit(rays_of(still), steps=8).record_.steps == [1, 2, 4, 8]
