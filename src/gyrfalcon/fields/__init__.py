"""K-planes: radiance fields that train on the processor of a laptop."""

from .kplanes import KPlanes, load
from .rays import Rays
from .scenes import Scene, moving_spheres
from .training import Record
from .warps import contract, normalized_device_rays, uncontract

__all__ = [
    "KPlanes",
    "Rays",
    "Record",
    "Scene",
    "contract",
    "load",
    "moving_spheres",
    "normalized_device_rays",
    "uncontract",
]
