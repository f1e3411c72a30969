"""libhires_flow.so through ctypes: the functions of hires_flow.h with their types."""
import ctypes
import os
from ctypes import c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_uint8, c_void_p

API = 1
MAX_RANK = 8


class Error(Exception):
    """What hires-flow says of a failure; `code` is a number of hires_flow.h's enum."""

    def __init__(self, text, code=1):
        super().__init__(text)
        self.code = code


class Opened:
    """What the library has opened: closed once, by close(), at the end of a `with`, or with the object."""

    _handle = None
    _noun = _close = None  # a subclass's: the word in messages, and the library's function

    def _opened(self):
        if not self._handle:
            raise ValueError(f"the {self._noun} is closed")
        return self._handle

    def close(self):
        handle, self._handle = self._handle, None
        if handle:
            self._close(handle)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    __del__ = close


def bytes_of(array):
    return array.ctypes.data_as(ctypes.POINTER(c_uint8))


class Shape(ctypes.Structure):
    _fields_ = [("rank", c_int), ("dims", c_int64 * MAX_RANK)]

    @classmethod
    def of(cls, dims):
        if len(dims) > MAX_RANK:
            raise Error(f"an array of rank {len(dims)}; at most {MAX_RANK} can be run")
        return cls(len(dims), (c_int64 * MAX_RANK)(*dims))

    def tuple(self):
        return tuple(self.dims[: self.rank])


class ModelOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("precision", c_char_p),
        ("device", c_char_p),
        ("calibration", c_char_p),
        ("threads", c_int),
        ("memory_limit_bytes", c_int64),
        ("classes", ctypes.POINTER(c_char_p)),
        ("n_classes", c_int),
        ("output", c_char_p),
        ("input_mean", c_double * 3),
        ("input_std", c_double * 3),
        ("input_size", c_int64),
        ("input_resize", c_int64),
        ("input_interpolation", c_char_p),
    ]


class SlideInfo(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("width", c_int64),
        ("height", c_int64),
        ("n_levels", c_int),
        ("mpp_x", c_double),
        ("mpp_y", c_double),
        ("mpp_source", c_char_p),
        ("vendor", c_char_p),
    ]


_FLOATS, _BYTES = ctypes.POINTER(c_float), ctypes.POINTER(c_uint8)
_FUNCTIONS = {
    "api": (c_int, []),
    "version": (c_char_p, []),
    "last_error": (c_char_p, []),
    "model_open": (c_void_p, [c_char_p, ctypes.POINTER(ModelOptions)]),
    "model_close": (None, [c_void_p]),
    "model_score": (_FLOATS, [c_void_p, _BYTES, c_int64, c_int64, ctypes.POINTER(c_int64)]),
    "model_calibrate": (c_int, [c_void_p, _BYTES, c_int64, c_int64]),
    "model_run_raw": (c_int, [c_void_p, _FLOATS, ctypes.POINTER(Shape)]),
    "model_calibrate_raw": (c_int, [c_void_p, _FLOATS, ctypes.POINTER(Shape)]),
    "model_n_outputs": (c_int, [c_void_p]),
    "model_output_name": (c_char_p, [c_void_p, c_int]),
    "model_output": (_FLOATS, [c_void_p, c_int, ctypes.POINTER(Shape)]),
    "model_notes": (c_char_p, [c_void_p]),
    "slide_open": (c_void_p, [c_char_p]),
    "slide_close": (None, [c_void_p]),
    "slide_describe": (c_int, [c_void_p, ctypes.POINTER(SlideInfo)]),
    "slide_level": (c_int, [c_void_p, c_int] + [ctypes.POINTER(c_int64)] * 2 + [ctypes.POINTER(c_double)]),
    "slide_read": (c_int, [c_void_p, c_int] + [c_int64] * 4 + [_BYTES]),
    "slide_read_patch": (c_int, [c_void_p] + [c_int64] * 3 + [c_double] * 2 + [_BYTES]),
}


def _open():
    named = os.environ.get("HIRES_FLOW_LIBRARY")
    names = [named] if named else ["libhires_flow.so.1"]
    if not named:
        names += [f"{prefix}/lib/libhires_flow.so.1" for prefix in (os.path.expanduser("~/.local"), "/usr/local")]
    wrong = []
    for name in names:
        try:
            library = ctypes.CDLL(name)
            break
        except OSError as error:
            wrong.append(str(error))
    else:
        raise ImportError(
            "libhires_flow.so.1 is not found: install hires-flow (docs/install.md), or name the file in "
            "HIRES_FLOW_LIBRARY; tried: " + "; ".join(wrong)
        )
    for function, (result, arguments) in _FUNCTIONS.items():
        entry = getattr(library, "hires_flow_" + function)
        entry.restype, entry.argtypes = result, arguments
    if library.hires_flow_api() != API:
        raise ImportError(f"{library._name} has interface {library.hires_flow_api()}; this package needs {API}")
    return library


library = _open()


def version():
    """The version of the library that runs."""
    return library.hires_flow_version().decode()


def failure(code=1):
    return Error(library.hires_flow_last_error().decode(errors="replace"), code)


def check(code):
    if code != 0:
        raise failure(code)
