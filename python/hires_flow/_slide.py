"""A whole-slide image, read as a run reads it."""
import ctypes
import os

import numpy as np

from ._library import Opened, SlideInfo, bytes_of, check, failure, library


class Slide(Opened):
    """An open slide; any number of threads may read it at once. Pixels are RGB bytes, white outside."""

    _noun = "slide"
    _close = staticmethod(library.hires_flow_slide_close)

    def __init__(self, path):
        self._handle = library.hires_flow_slide_open(os.fsencode(path))
        if not self._handle:
            raise failure()
        info = SlideInfo(ctypes.sizeof(SlideInfo))
        check(library.hires_flow_slide_describe(self._handle, ctypes.byref(info)))
        self.dimensions = (info.width, info.height)
        self.mpp = (info.mpp_x, info.mpp_y) if info.mpp_x > 0 else None
        self.mpp_source = info.mpp_source.decode()
        self.vendor = info.vendor.decode()
        levels = [self._level(i) for i in range(info.n_levels)]
        self.level_count = info.n_levels
        self.level_dimensions = tuple(level[:2] for level in levels)
        self.level_downsamples = tuple(level[2] for level in levels)

    def read_region(self, location, level, size):
        """height x width x 3 from a level; location: the top-left as x, y in px of level 0."""
        rgb = np.empty((size[1], size[0], 3), np.uint8)
        check(library.hires_flow_slide_read(self._opened(), level, *location, *size, bytes_of(rgb)))
        return rgb

    def read_patch(self, x, y, size, mpp, slide_mpp=None):
        """size x size x 3 at `mpp` um/px, its top-left at x, y in px of level 0, resampled as in a run."""
        rgb = np.empty((size, size, 3), np.uint8)
        check(library.hires_flow_slide_read_patch(self._opened(), x, y, size, mpp, slide_mpp or 0, bytes_of(rgb)))
        return rgb

    def _level(self, i):
        width, height, downsample = ctypes.c_int64(), ctypes.c_int64(), ctypes.c_double()
        check(
            library.hires_flow_slide_level(
                self._handle, i, ctypes.byref(width), ctypes.byref(height), ctypes.byref(downsample)
            )
        )
        return width.value, height.value, downsample.value
