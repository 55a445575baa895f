"""COCO's JSON of instances, and PNG files of instance numbers, in and out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gyrfalcon.persistence import write_whole

from .boxes import areas, box_of
from .clips import LARGEST_PICTURE
from .finding import Found

Array = np.ndarray[Any, Any]
LONGEST_NUMBER = 60  # bits


def encode_mask(mask: Array) -> dict[str, Any]:
    """A mask as COCO's run lengths, uncompressed: columns from the left, background first.

    >>> import numpy as np
    >>> from gyrfalcon.vision import decode_mask, encode_mask
    >>> runs = encode_mask(np.array([[False, True], [True, True]]))
    >>> runs
    {'size': [2, 2], 'counts': [1, 3]}
    >>> decode_mask(runs).tolist()
    [[False, True], [True, True]]
    """
    flat = np.asarray(mask, dtype=bool).ravel(order="F")
    edges = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    lengths = np.diff(np.concatenate([[0], edges, [len(flat)]])) if len(flat) else np.zeros(0, dtype=np.int64)
    counts = [0, *lengths.tolist()] if len(flat) and flat[0] else lengths.tolist()
    return {"size": [int(side) for side in mask.shape], "counts": counts}


def decode_mask(runs: Mapping[str, Any]) -> Array:
    """The mask of COCO's run lengths, as numbers or in its compressed text.

    >>> from gyrfalcon.vision import decode_mask
    >>> decode_mask({"size": [1, 3], "counts": [1, 2]}).tolist()
    [[False, True, True]]
    """
    height, width = (int(side) for side in runs["size"])
    _check_size(height, width)
    counts = runs["counts"]
    lengths = _uncompressed(counts) if isinstance(counts, str | bytes) else [int(count) for count in counts]
    if any(length < 0 for length in lengths) or sum(lengths) != height * width:
        raise ValueError(f"counts must add up to {height} × {width} pixels")
    values = np.arange(len(lengths)) % 2 == 1
    return np.repeat(values, lengths).reshape((height, width), order="F")


def _check_size(height: int, width: int) -> None:
    """Refuse a size of which a few bytes would ask for all of the memory."""
    if height < 1 or width < 1 or height * width > LARGEST_PICTURE:
        raise ValueError(f"size must be of {LARGEST_PICTURE} pixels at most and not empty, got {height} × {width}")


def _uncompressed(text: str | bytes) -> list[int]:
    """Numbers of six bits a character, of which the sixth says that more follow; from the third on, differences."""
    content = text.encode() if isinstance(text, str) else text
    lengths: list[int] = []
    place = 0
    while place < len(content):
        value = shift = 0
        more = True
        while more:
            if place >= len(content) or shift > LONGEST_NUMBER:
                raise ValueError("counts end within a number, or one is too long")
            part = content[place] - 48
            value |= (part & 0x1F) << shift
            more = bool(part & 0x20)
            place, shift = place + 1, shift + 5
            if not more and part & 0x10:
                value |= -1 << shift
        lengths.append(value + lengths[-2] if len(lengths) > 2 else value)
    return lengths


def write_coco(path: str | os.PathLike[str], frames: Iterable[tuple[str, tuple[int, int], Sequence[Found]]]) -> None:
    """Write what was found as a COCO file of images, annotations with scores, and categories.

    Parameters
    ----------
    path : path of a JSON file
    frames : iterable of (name, (height, width), list of Found)

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from gyrfalcon import vision
    >>> found = [vision.Found("mug", 0.9, np.array([0, 0, 2, 1]), np.ones((1, 2), dtype=bool))]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     vision.write_coco(f"{folder}/found.json", [("a.png", (1, 2), found)])
    ...     vision.read_coco(f"{folder}/found.json")[0][1]["mug"][0].tolist()
    [[True, True]]
    """
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    names: list[str] = []
    for number, (name, shape, found) in enumerate(frames, start=1):
        images.append({"id": number, "file_name": name, "height": int(shape[0]), "width": int(shape[1])})
        for one in found:
            if one.label not in names:
                names.append(one.label)
            left, top, right, bottom = (float(side) for side in one.box)
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": number,
                    "category_id": names.index(one.label) + 1,
                    "bbox": [left, top, right - left, bottom - top],
                    "area": int(one.mask.sum()),
                    "segmentation": encode_mask(one.mask),
                    "iscrowd": 0,
                    "score": one.score,
                }
            )
    categories = [{"id": place, "name": name} for place, name in enumerate(names, start=1)]
    content = {"images": images, "annotations": annotations, "categories": categories}
    write_whole(Path(path), json.dumps(content).encode())


def read_coco(path: str | os.PathLike[str]) -> list[tuple[str, dict[str, list[Array]]]]:
    """Names of images and the instances in them by label, as `InstanceSegmenter.observe` takes them.

    An instance is a mask where the file has run lengths or polygons, and a box where it has none.

    Parameters
    ----------
    path : path of a JSON file

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> from gyrfalcon import vision
    >>> box = {"image_id": 1, "category_id": 1, "bbox": [2, 3, 4, 5]}
    >>> images = [{"id": 1, "file_name": "a.png", "height": 9, "width": 9}]
    >>> content = {"images": images, "annotations": [box], "categories": [{"id": 1, "name": "mug"}]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "boxes.json")
    ...     _ = path.write_text(json.dumps(content))
    ...     print([(name, shown["mug"][0].tolist()) for name, shown in vision.read_coco(path)])
    [('a.png', [2.0, 3.0, 6.0, 8.0])]
    """
    try:
        content = json.loads(Path(path).read_text("utf-8"))
        labels = {entry["id"]: str(entry["name"]) for entry in content["categories"]}
        shapes = {entry["id"]: (int(entry["height"]), int(entry["width"])) for entry in content["images"]}
        found: dict[Any, dict[str, list[Array]]] = {entry["id"]: {} for entry in content["images"]}
        for entry in content["annotations"]:
            if entry.get("iscrowd"):
                continue
            instance = _instance(entry, shapes[entry["image_id"]])
            found[entry["image_id"]].setdefault(labels[entry["category_id"]], []).append(instance)
        return [(str(entry["file_name"]), found[entry["id"]]) for entry in content["images"]]
    except (LookupError, TypeError, AttributeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{os.fspath(path)} is not a COCO file of instances: {error!r}") from error


def _instance(entry: Mapping[str, Any], shape: tuple[int, int]) -> Array:
    shown = entry.get("segmentation")
    if isinstance(shown, Mapping):
        return decode_mask(shown)
    if shown:
        return _polygons(shown, shape)
    left, top, width, height = (float(number) for number in entry["bbox"])
    return np.array([left, top, left + width, top + height])


def _polygons(polygons: Sequence[Sequence[float]], shape: tuple[int, int]) -> Array:
    from PIL import Image, ImageDraw

    _check_size(*shape)
    picture = Image.new("1", (shape[1], shape[0]))
    for polygon in polygons:
        ImageDraw.Draw(picture).polygon([float(number) for number in polygon], fill=1)
    return np.array(picture, dtype=bool)


def number_masks(found: Sequence[Found], shape: tuple[int, int]) -> Array:
    """Instance numbers from 1 as uint8, 0 for background, the best on top; for PNG files.

    >>> import numpy as np
    >>> from gyrfalcon.vision import Found, number_masks
    >>> mask = np.array([[True, False]])
    >>> number_masks([Found("mug", 0.9, np.array([0, 0, 1, 1]), mask)], (1, 2)).tolist()
    [[1, 0]]
    """
    if len(found) > 255:
        raise ValueError(f"found: a PNG file numbers 255 instances at most, got {len(found)}")
    numbers = np.zeros(shape, dtype=np.uint8)
    for place in range(len(found) - 1, -1, -1):
        numbers[found[place].mask] = place + 1
    return numbers


def read_numbered(numbers: Array, label: str) -> dict[str, list[Array]]:
    """Instances of one class from a picture of instance numbers, such as a PNG mask; 0 is background.

    >>> import numpy as np
    >>> from gyrfalcon.vision import read_numbered
    >>> [mask.tolist() for mask in read_numbered(np.array([[0, 1, 2]]), "mug")["mug"]]
    [[[False, True, False]], [[False, False, True]]]
    """
    numbers = np.asarray(numbers)
    if numbers.ndim != 2 or numbers.dtype.kind not in "iu":
        raise ValueError(f"numbers must be integers of shape (height, width), got {numbers.dtype} of {numbers.shape}")
    masks = [numbers == number for number in np.unique(numbers) if number]
    shown = [mask for mask in masks if areas(np.array([box_of(mask)]))[0] > 0]
    return {label: shown} if shown else {}
