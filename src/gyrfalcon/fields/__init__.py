"""K-planes: radiance fields that train on the processor of a laptop."""

from .kplanes import KPlanes, load
from .rays import Rays
from .scenes import Scene, moving_spheres
from .stage import Stage
from .training import Record
from .viewing import view
from .warps import contract, normalized_device_rays, uncontract

__all__ = [
    "KPlanes",
    "Rays",
    "Record",
    "Scene",
    "Stage",
    "contract",
    "load",
    "moving_spheres",
    "normalized_device_rays",
    "uncontract",
    "view",
]
