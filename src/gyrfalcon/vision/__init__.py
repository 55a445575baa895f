"""On-line detection and segmentation: teach a machine to see from a few frames, and undo exactly."""

from .boxes import box_iou, mask_iou, non_maximum_suppression
from .clips import VideoWriter, draw, read_frames
from .coco import decode_mask, encode_mask, number_masks, read_coco, read_numbered, write_coco
from .extractors import Extractor, WeightsError, available, extractor
from .finding import Found
from .metrics import AveragePrecision, average_precision
from .pixels import PixelClassifier
from .scenes import scene
from .segmenter import InstanceSegmenter
from .teaching import serve

__all__ = [
    "AveragePrecision",
    "Extractor",
    "Found",
    "InstanceSegmenter",
    "PixelClassifier",
    "VideoWriter",
    "WeightsError",
    "available",
    "average_precision",
    "box_iou",
    "decode_mask",
    "draw",
    "encode_mask",
    "extractor",
    "mask_iou",
    "non_maximum_suppression",
    "number_masks",
    "read_coco",
    "read_frames",
    "read_numbered",
    "scene",
    "serve",
    "write_coco",
]
