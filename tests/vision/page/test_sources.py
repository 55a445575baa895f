"""Frames of clips and folders, in any order, are those that were written; other files are refused in words."""

import av
import numpy as np
import pytest
from PIL import Image

from gyrfalcon.vision.page import open_source
from reference.pages import scene


def write_clip(path, pictures, codec="libx264", gop=7):
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=10, options={"crf": "12", "g": str(gop), "bf": "2"})
        stream.height, stream.width = pictures[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        for picture in pictures:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")))
        container.mux(stream.encode())


def test_a_clip_is_read_in_any_order(tmp_path):
    pictures = [scene(step)[0] for step in range(23)]
    write_clip(tmp_path / "clip.mp4", pictures)
    clip = open_source(tmp_path / "clip.mp4")
    assert len(clip) == 23
    order = [*range(5), 22, 3, 4, 20, 0, 21, 7, 7, 8]
    for index in order:
        frame = clip.read(index).astype(int)
        errors = [np.abs(frame - picture).mean() for picture in pictures]
        assert np.argmin(errors) == index
    clip.close()


def test_large_frames_are_made_smaller(tmp_path):
    write_clip(tmp_path / "clip.mp4", [np.zeros((300, 2000, 3), np.uint8)])
    clip = open_source(tmp_path / "clip.mp4")
    assert clip.read(0).shape == (144, 960, 3)
    clip.close()
    (tmp_path / "folder").mkdir()
    Image.new("L", (2000, 300)).save(tmp_path / "folder" / "a.PNG")
    assert open_source(tmp_path / "folder").read(0).shape == (144, 960, 3)


def test_other_sources_are_refused(tmp_path):
    assert open_source("camera") is None
    with pytest.raises(ValueError, match="holds no pictures"):
        open_source(tmp_path)
    with pytest.raises(ValueError, match="neither 'camera' nor"):
        open_source(tmp_path / "none.mp4")
    (tmp_path / "text.mp4").write_text("no video")
    with pytest.raises(ValueError, match="no video that can be read"):
        open_source(tmp_path / "text.mp4")
