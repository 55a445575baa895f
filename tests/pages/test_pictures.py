"""Pictures are decoded, and bombs, damaged files and masks of other sizes are refused before they cost anything."""

import io
import struct
import tracemalloc
import warnings
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image, ImageFile

from gyrfalcon.pages import PictureError, decode_mask, decode_picture, encode_mask, encode_picture, pictures


def png(picture):
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "PNG")
    return file.getvalue()


def bomb(width, height):
    """A valid PNG of zeros in few bytes."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    press = zlib.compressobj(9)
    row, rows = bytes(1 + (width + 7) // 8), b""
    for _ in range(height):
        rows += press.compress(row)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows + press.flush()) + chunk(b"IEND", b"")


def test_a_png_is_read_exactly_and_a_jpeg_closely():
    picture = np.random.default_rng(0).integers(0, 256, (12, 17, 3), dtype=np.uint8)
    np.testing.assert_array_equal(decode_picture(png(picture)), picture)
    ramp = np.broadcast_to(np.arange(160, dtype=np.uint8)[None, :, None], (120, 160, 3))
    assert np.abs(decode_picture(encode_picture(ramp)).astype(int) - ramp).max() <= 6
    gray = decode_picture(png(picture[:, :, 0]))
    np.testing.assert_array_equal(gray, np.repeat(picture[:, :, :1], 3, axis=2))


@given(arrays.arrays(bool, arrays.array_shapes(min_dims=2, max_dims=2, max_side=40)))
def test_masks_survive(mask):
    np.testing.assert_array_equal(decode_mask(encode_mask(mask), mask.shape), mask)


def test_masks_take_one_bit_a_pixel():
    noise = np.random.default_rng(0).random((480, 640)) < 0.5
    assert len(encode_mask(noise)) < 480 * 640 / 8 * 1.05
    blob = np.hypot(*np.mgrid[-240:240, -320:320]) < 100
    assert len(encode_mask(blob)) < 4000


@pytest.mark.parametrize("size", [(4096, 4096), (30_000, 30_000)])
def test_bombs_are_refused_before_they_are_decoded(size):
    data = bomb(*size)
    assert len(data) < 1 << 20
    tracemalloc.start()
    with pytest.raises(PictureError, match=r"pixels"):
        decode_picture(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20
    assert decode_picture(bomb(64, 32)).shape == (32, 64, 3)


def test_jpegs_of_many_scans_are_refused():
    data = encode_picture(np.zeros((16, 16, 3), dtype=np.uint8))
    with pytest.raises(PictureError, match="scans"):
        decode_picture(data + b"\xff\xda" * (pictures.MOST_SCANS + 1))


def test_masks_of_another_size_or_format_are_refused():
    mask = np.ones((8, 9), dtype=bool)
    with pytest.raises(PictureError, match=r"\(9, 8\).*\(8, 9\)"):
        decode_mask(encode_mask(mask), (9, 8))
    with pytest.raises(PictureError, match="pixels"):
        decode_mask(encode_mask(mask), (2, 2))
    with pytest.raises(PictureError, match="not a PNG"):
        decode_mask(encode_picture(np.zeros((8, 9, 3), dtype=np.uint8)), (8, 9))


@given(st.data())
def test_damaged_files_are_refused_or_read(data):
    picture = np.arange(24 * 20 * 3, dtype=np.uint8).reshape(24, 20, 3)
    file = bytearray(data.draw(st.sampled_from([png(picture), encode_picture(picture)])))
    for _ in range(data.draw(st.integers(1, 4))):
        file[data.draw(st.integers(0, len(file) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(file)))
    for damaged in (bytes(file), bytes(file[:cut])):
        try:
            read = decode_picture(damaged)
        except PictureError:
            continue
        assert read.dtype == np.uint8
        assert read.size <= 3 * pictures.MOST_PIXELS


@pytest.mark.parametrize("data", [b"", b"GIF89a", b"%PDF-1.4", b"<svg/>"])
def test_other_files_are_refused(data):
    with pytest.raises(PictureError, match="not a JPEG or PNG"):
        decode_picture(data)


def test_jpegs_of_several_pictures_may_have_no_more_scans():
    file = io.BytesIO()
    frames = [Image.new("RGB", (16, 16), color) for color in ("red", "blue")]
    frames[0].save(file, "MPO", save_all=True, append_images=frames[1:])
    assert decode_picture(file.getvalue()).shape == (16, 16, 3)
    with pytest.raises(PictureError, match="scans"):
        decode_picture(file.getvalue() + b"\xff\xda" * (pictures.MOST_SCANS + 1))


def test_warnings_of_other_threads_are_left_alone(monkeypatch):
    during, load = [], ImageFile.ImageFile.load
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda image: (during.append(warnings.filters[:]), load(image))[1])
    decode_picture(png(np.zeros((4, 5, 3), dtype=np.uint8)))
    assert during
    assert all(filters == warnings.filters for filters in during)
