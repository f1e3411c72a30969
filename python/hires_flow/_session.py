"""A model, ready to score arrays."""
import ctypes
import os
import warnings

import numpy as np

from ._library import ModelOptions, Shape, check, failure, library


def _text(value):
    return None if value is None else os.fsencode(value)


class Session:
    """An ONNX model with one input.

    precision: "fp32", "tf32", "fp16", "bf16" or "int8"; device: "auto", "cpu", "cuda" or "ref".
    int8 needs the ranges of its tensors: a `calibration` file (`hires-engine eval --save-scales`), or
    calibrate(array). Without either the first array is calibrated on, with a warning.
    A session is for one thread at a time.
    """

    def __init__(self, model, precision="fp32", device="auto", calibration=None, threads=0, memory_limit=0):
        options = ModelOptions(
            ctypes.sizeof(ModelOptions), _text(precision), _text(device), _text(calibration), threads, memory_limit
        )
        self._model = library.hires_flow_model_open(os.fsencode(model), ctypes.byref(options))
        if not self._model:
            raise failure()
        self._warned = ""

    @property
    def output_names(self):
        n = library.hires_flow_model_n_outputs(self._opened())
        return [library.hires_flow_model_output_name(self._model, i).decode() for i in range(n)]

    @property
    def notes(self):
        """What is not as asked for, e.g. layers that stay in float32; a text of lines."""
        return library.hires_flow_model_notes(self._opened()).decode()

    def calibrate(self, array):
        """int8: takes the ranges of all tensors from a float32 run of this array."""
        self._call(library.hires_flow_model_calibrate, array)

    def run(self, array):
        """All outputs, float32, by name."""
        self._call(library.hires_flow_model_run, array)
        if self.notes.startswith("calibrated on") and not self._warned:
            self._warned = self.notes
            warnings.warn(self.notes.splitlines()[0], stacklevel=3)
        return {name: self._output(i) for i, name in enumerate(self.output_names)}

    def __call__(self, array):
        """The output of a model that has one; a tuple of all of a model that has several."""
        outputs = tuple(self.run(array).values())
        return outputs[0] if len(outputs) == 1 else outputs

    def _call(self, function, array):
        array = np.ascontiguousarray(array, dtype=np.float32)
        shape = Shape.of(array.shape)
        check(function(self._opened(), array.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), ctypes.byref(shape)))

    def _output(self, i):
        shape = Shape()
        data = library.hires_flow_model_output(self._model, i, ctypes.byref(shape))
        return np.ctypeslib.as_array(data, shape.tuple() or (1,)).reshape(shape.tuple()).copy()

    def _opened(self):
        if not self._model:
            raise ValueError("the session is closed")
        return self._model

    def close(self):
        model, self._model = getattr(self, "_model", None), None
        if model:
            library.hires_flow_model_close(model)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    __del__ = close
