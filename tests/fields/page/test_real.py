"""The viewer shows what a field from a file renders: one that moves, with appearances."""

import io

import numpy as np
from PIL import Image

from gyrfalcon import fields
from gyrfalcon.fields.page import serve_from
from gyrfalcon.pages import Message
from reference.sockets import dial_page


def test_a_field_from_a_file_is_shown(tmp_path):
    scene = fields.moving_spheres(views=6, size=24)
    rays = fields.Rays.from_poses(
        scene.images, scene.poses, scene.focal, times=scene.times, image_ids=np.arange(len(scene.images))
    )
    field = fields.KPlanes(resolutions=(16,), features=8, times=4, appearance=4, random_state=0).fit(rays, steps=30)
    stage = field.stage()
    np.testing.assert_array_equal(stage.pose, scene.poses[0])
    assert stage.shape == (24, 24)
    assert stage.appearances == 6
    assert np.linalg.norm(stage.center) < 0.5  # the spheres are around the origin
    np.testing.assert_allclose(stage.up, [0, 0, 1], atol=0.2)
    low, high = stage.times
    assert (low, high) == (scene.times.min(), scene.times.max())
    field.save(tmp_path / "scene.safetensors")
    with (
        serve_from(tmp_path / "scene.safetensors", size=48).background() as server,
        dial_page(server.gate) as socket,
    ):
        socket.send(Message("hello", {"token": server.gate.token}).encode())
        assert Message.decode(socket.recv(timeout=60)).fields["appearances"] == 6
        moment = low + 0.3 * (high - low)
        wanted = {"id": 1, "pose": scene.poses[2].ravel().tolist(), "time": moment, "appearance": 3}
        socket.send(Message("view", wanted).encode())
        said = Message.decode(socket.recv(timeout=60))
        while not said.fields["last"]:
            said = Message.decode(socket.recv(timeout=60))
    picture = np.asarray(Image.open(io.BytesIO(said.blobs[0]))) / 255
    rendered = field.render(scene.poses[2], (48, 48), time=moment, appearance=3)[0]
    assert np.abs(picture - rendered).mean() < 0.02
