"""A model, ready to score patches."""
import ctypes
import os
import warnings

import numpy as np

from ._library import ModelOptions, Opened, Shape, bytes_of, check, failure, library

_INPUT = ("mean", "std", "size", "resize", "interpolation")


def _text(value):
    return None if value is None else os.fsencode(value)


class Session(Opened):
    """An ONNX model with one input.

    precision: "fp32", "tf32", "fp16", "bf16" or "int8"; device: "auto", "cpu", "cuda" or "ref".
    classes, output, input: a workflow's model.classes, model.output and model.input, by the same rules; e.g.
    classes=["normal", "tumor"], output="embedding", input={"mean": [0.5] * 3, "std": [0.5] * 3, "size": 224}.
    What `input` leaves open is as the model's file says.
    int8 needs the ranges of its tensors: a `calibration` file (`hires-engine eval --save-scales`), or
    calibrate(patches). Without either the first patches are calibrated on, with a warning.
    A session is for one thread at a time. Weights, images and outputs that do not fit into memory are an Error;
    if memory runs out for something small, the process ends with exit code 5.
    """

    _noun = "session"
    _close = staticmethod(library.hires_flow_model_close)

    def __init__(
        self,
        model,
        precision="fp32",
        device="auto",
        calibration=None,
        threads=0,
        memory_limit=0,
        classes=None,
        output=None,
        input=None,
    ):
        if isinstance(classes, str):
            raise TypeError(f"classes is a list of names, not {classes!r}")
        names, said = list(classes or ()), dict(input or {})
        wrong = sorted(set(said) - set(_INPUT))
        if wrong:
            raise ValueError(f"input has {wrong[0]!r}; it may have {', '.join(_INPUT)}")
        for name in ("mean", "std"):
            if len(said.get(name, (0, 0, 0))) != 3:
                raise ValueError(f"input: {name} is a number for each of R, G and B")
        options = ModelOptions(
            size=ctypes.sizeof(ModelOptions),
            precision=_text(precision),
            device=_text(device),
            calibration=_text(calibration),
            threads=threads,
            memory_limit_bytes=memory_limit,
            classes=(ctypes.c_char_p * len(names))(*map(_text, names)) if names else None,
            n_classes=len(names),
            output=_text(output),
            input_mean=tuple(said.get("mean", (0, 0, 0))),
            input_std=tuple(said.get("std", (0, 0, 0))),
            input_size=said.get("size", 0),
            input_resize=said.get("resize", 0),
            input_interpolation=_text(said.get("interpolation")),
        )
        self._handle = library.hires_flow_model_open(os.fsencode(model), ctypes.byref(options))
        if not self._handle:
            raise failure()
        self.classes = names
        self._warned = ""

    @property
    def output_names(self):
        """The outputs of the file, which run_raw() gives."""
        n = library.hires_flow_model_n_outputs(self._opened())
        return [library.hires_flow_model_output_name(self._handle, i).decode() for i in range(n)]

    @property
    def notes(self):
        """What is not as asked for, e.g. layers that stay in float32; a text of lines."""
        return library.hires_flow_model_notes(self._opened()).decode()

    def score(self, patches):
        """What a run says of these patches, uint8 RGB: N x size x size x 3, or one of size x size x 3.

        {class: probabilities}, a number for one patch, else an array of N. With output="embedding" an array of
        the N vectors, or the vector. Size, colours and activation are as `input` and `output` or the file say.
        """
        patches, one = self._patches(patches), np.ndim(patches) == 3
        n_scores = ctypes.c_int64()
        data = library.hires_flow_model_score(
            self._opened(), bytes_of(patches), len(patches), patches.shape[1], ctypes.byref(n_scores)
        )
        if not data:
            raise failure()
        scores = np.ctypeslib.as_array(data, (len(patches), n_scores.value)).copy()
        self._warn()
        if not self.classes:
            return scores[0] if one else scores
        return {name: float(scores[0, i]) if one else scores[:, i] for i, name in enumerate(self.classes)}

    __call__ = score

    def calibrate(self, patches):
        """int8: takes the ranges of all tensors from a float32 run of these patches, as score() takes them."""
        patches = self._patches(patches)
        check(library.hires_flow_model_calibrate(self._opened(), bytes_of(patches), len(patches), patches.shape[1]))

    def run_raw(self, array):
        """The network alone: all outputs, float32, by name, of an array in the file's layout (N x C x H x W).

        Nothing is scaled, normalised or resized, and no Softmax is added to what comes out.
        """
        self._raw(library.hires_flow_model_run_raw, array)
        self._warn()
        return {name: self._output(i) for i, name in enumerate(self.output_names)}

    def calibrate_raw(self, array):
        """int8: takes the ranges of all tensors from a float32 run of this array, as run_raw() takes it."""
        self._raw(library.hires_flow_model_calibrate_raw, array)

    def _warn(self):
        if self.notes.startswith("calibrated on") and not self._warned:
            self._warned = self.notes
            warnings.warn(self.notes.splitlines()[0], stacklevel=3)

    @staticmethod
    def _patches(patches):
        patches = np.asarray(patches)
        if patches.dtype != np.uint8:
            raise TypeError(
                f"patches are pixels of 0 to 255 in uint8, not {patches.dtype}; what is normalised already goes to "
                "run_raw(), or calibrate_raw()"
            )
        if patches.ndim not in (3, 4) or patches.shape[-1] != 3 or patches.shape[-2] != patches.shape[-3]:
            raise ValueError(f"patches are N x size x size x 3, not {' x '.join(map(str, patches.shape))}")
        return np.ascontiguousarray(patches).reshape((-1,) + patches.shape[-3:])

    def _raw(self, function, array):
        array = np.asarray(array)
        if array.dtype.kind != "f":
            raise TypeError(
                f"a raw call takes the floats that the network was trained on, not {array.dtype}; pixels go to "
                "score(), or calibrate()"
            )
        array = np.ascontiguousarray(array, dtype=np.float32)
        shape = Shape.of(array.shape)
        check(function(self._opened(), array.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), ctypes.byref(shape)))

    def _output(self, i):
        shape = Shape()
        data = library.hires_flow_model_output(self._handle, i, ctypes.byref(shape))
        return np.ctypeslib.as_array(data, shape.tuple() or (1,)).reshape(shape.tuple()).copy()
