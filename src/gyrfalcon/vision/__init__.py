"""On-line detection and segmentation: teach a machine to see from a few frames, and undo exactly."""

from .boxes import box_iou, mask_iou, non_maximum_suppression
from .extractors import Extractor, WeightsError, available, extractor
from .metrics import AveragePrecision, average_precision
from .pixels import PixelClassifier
from .scenes import scene
from .segmenter import Found, InstanceSegmenter
from .teaching import serve

__all__ = [
    "AveragePrecision",
    "Extractor",
    "Found",
    "InstanceSegmenter",
    "PixelClassifier",
    "WeightsError",
    "available",
    "average_precision",
    "box_iou",
    "extractor",
    "mask_iou",
    "non_maximum_suppression",
    "scene",
    "serve",
]
