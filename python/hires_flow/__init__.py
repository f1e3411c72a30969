"""hires-flow from Python: models, slides, and the results of runs.

    import hires_flow
    slide = hires_flow.Slide("slide.svs")
    rgb = slide.read_patch(x=1024, y=2048, size=256, mpp=0.5)

    session = hires_flow.Session("m.onnx", precision="bf16", classes=["normal", "tumor"])
    session.score(rgb)["tumor"]                    # what a run says of this patch; N x 256 x 256 x 3 for N
    session.run_raw(array)                         # the network alone: normalised float32, N x C x H x W

    run = hires_flow.read_run("runs/mine")         # needs pandas
    run.labels, run.patches("slide_1", "fp32"), run.report
"""
from ._library import Error, version
from ._run import Run, read_run
from ._session import Session
from ._slide import Slide

__all__ = ["Error", "Run", "Session", "Slide", "read_run", "version"]
