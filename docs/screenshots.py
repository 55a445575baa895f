"""Make the pictures of the teaching page and of the viewer: `PYTHONPATH=tests python docs/screenshots.py`.

It needs Chromium.

The page is used as a user would: three boxes of each of two objects, in a generated scene that a camera shows.
"""

from __future__ import annotations

import functools
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from gyrfalcon import fields
from gyrfalcon.fields.page import serve_from as serve_view
from gyrfalcon.vision import scene
from gyrfalcon.vision.page import make_segmenter, serve_from
from gyrfalcon.vision.scenes import texture
from reference.browser import Tab, chromium
from reference.pages import write_y4m

HERE = Path(__file__).parent
HEIGHT, WIDTH, FRAMES = 480, 640, 60
WINDOW = (1280, 800)


def clip() -> tuple[list[np.ndarray], list[dict[str, np.ndarray]]]:
    """Frames of two textured objects that move over a generated scene, and their masks."""
    random = np.random.default_rng(11)
    back = scene(random, (HEIGHT, WIDTH), shapes=14)
    paints = [np.clip(texture(random, (HEIGHT, WIDTH), power), 0, 255).transpose(1, 2, 0) for power in (1.1, 0.8)]
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    pictures, masks = [], []
    for step in range(FRAMES):
        turn = 2 * np.pi * step / FRAMES
        moves = [(85 * np.cos(turn), 90 * np.sin(turn)), (-60 * np.cos(turn), -80 * np.sin(2 * turn))]
        disk = np.hypot(columns - 200 - moves[0][0], rows - 240 - moves[0][1]) < 80
        brick = (abs(columns - 475 - moves[1][0]) < 70) & (abs(rows - 240 - moves[1][1]) < 60)
        picture = back.copy()
        for mask, paint, (across, down) in zip((disk, brick), paints, moves, strict=True):
            picture[mask] = np.roll(paint, (round(down), round(across)), (0, 1))[mask]
        pictures.append(picture)
        masks.append({"disk": disk, "brick": brick})
    return pictures, masks


def teach(tab: Tab, name: str, total: int, pictures: list[np.ndarray], masks: list[dict[str, np.ndarray]]) -> None:
    """Drag a box around an object in the picture that is shown, and teach it."""
    tab.key(" ")
    shown = tab.pictures("#picture")[0][::8, ::8, :3].astype(float)
    place = int(np.argmin([np.abs(picture[::8, ::8] - shown).mean() for picture in pictures]))
    rows, columns = (np.flatnonzero(masks[place][name].any(axis)) for axis in (1, 0))
    first, last = (columns[0] / WIDTH, rows[0] / HEIGHT), ((columns[-1] + 1) / WIDTH, (rows[-1] + 1) / HEIGHT)
    tab.drag("#overlay", [first, (0.5, 0.5), last])
    tab.key("Enter")
    tab.until(f"parseInt(document.getElementById('taught').textContent.replace('one', '1')) === {total}")
    tab.until("document.getElementById('model').textContent === 'ready'")
    time.sleep(2)


def save(tab: Tab, name: str) -> None:
    Image.fromarray(tab.screenshot(name)).save(HERE / "_static" / f"{name}.webp", quality=70, method=6)


def main() -> None:
    pictures, masks = clip()
    with tempfile.TemporaryDirectory() as folder:
        write_y4m(f"{folder}/clip.y4m", pictures, rate=4)
        make = functools.partial(make_segmenter, None, "tiny-vit", 320)
        with (
            serve_from(make, out="taught.safetensors").background() as server,
            chromium(f"{folder}/profile", f"--use-file-for-fake-video-capture={folder}/clip.y4m") as open_tab,
            open_tab() as tab,
        ):
            tab.look_like(*WINDOW)
            tab.open(server.url)
            tab.until("document.getElementById('empty').hidden")
            total = 0
            for name in ("disk", "brick"):
                tab.key("n")
                tab.type(name)
                tab.key("Enter")
                tab.until(f"document.getElementById('classes').textContent.includes('{name}')")
                for _ in range(3):
                    total += 1
                    teach(tab, name, total, pictures, masks)
            tab.until("new Set([...document.querySelectorAll('#found .name')].map(e => e.textContent)).size === 2")
            tab.run("document.activeElement.blur()")
            save(tab, "teaching")
        spheres = fields.moving_spheres(views=60, size=100)
        rays = fields.Rays.from_poses(spheres.images, spheres.poses, spheres.focal, times=spheres.times)
        model = fields.KPlanes((64, 128), times=20, random_state=0).fit(rays, steps=1500)
        model.save(f"{folder}/scene.safetensors")
        with (
            serve_view(f"{folder}/scene.safetensors").background() as server,
            chromium(f"{folder}/viewer") as open_tab,
            open_tab() as tab,
        ):
            tab.look_like(*WINDOW)
            tab.open(server.url)
            tab.until("document.getElementById('picture').dataset.finished === 'yes'")
            save(tab, "viewer")


if __name__ == "__main__":
    main()
