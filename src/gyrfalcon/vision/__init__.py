"""On-line detection and segmentation: teach a machine to see from a few frames, and undo exactly."""

from .boxes import box_iou, mask_iou, non_maximum_suppression
from .extractors import Extractor, WeightsError, available, extractor
from .pixels import PixelClassifier
from .scenes import scene
from .segmenter import Found, InstanceSegmenter

__all__ = [
    "Extractor",
    "Found",
    "InstanceSegmenter",
    "PixelClassifier",
    "WeightsError",
    "available",
    "box_iou",
    "extractor",
    "mask_iou",
    "non_maximum_suppression",
    "scene",
]
