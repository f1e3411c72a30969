"""hires-flow from Python: models, slides, and the results of runs.

    import hires_flow
    session = hires_flow.Session("m.onnx", precision="bf16")
    scores = session(patches)                      # float32, N x C x H x W

    slide = hires_flow.Slide("slide.svs")
    rgb = slide.read_patch(x=1024, y=2048, size=224, mpp=0.5)

    run = hires_flow.read_run("runs/mine")         # needs pandas
    run.labels, run.patches("slide_1", "fp32"), run.report
"""
from ._library import Error, version
from ._run import Run, read_run
from ._session import Session
from ._slide import Slide

__all__ = ["Error", "Run", "Session", "Slide", "read_run", "version"]
