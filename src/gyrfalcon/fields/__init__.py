"""K-planes: radiance fields that train on the processor of a laptop."""

from .kplanes import KPlanes, load
from .plane_features import PlaneFeatures
from .rays import Rays
from .readers import read_scene
from .scenes import Scene, moving_spheres
from .stage import Stage
from .training import Record
from .viewing import view
from .views import UnwantedError
from .warps import contract, normalized_device_rays, uncontract

__all__ = [
    "KPlanes",
    "PlaneFeatures",
    "Rays",
    "Record",
    "Scene",
    "Stage",
    "UnwantedError",
    "contract",
    "load",
    "moving_spheres",
    "normalized_device_rays",
    "read_scene",
    "uncontract",
    "view",
]
