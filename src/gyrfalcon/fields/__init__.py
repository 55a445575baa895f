"""K-planes: radiance fields that train on the processor of a laptop."""
