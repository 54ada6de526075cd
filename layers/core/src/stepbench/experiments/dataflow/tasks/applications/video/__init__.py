"""
Video analytics: a video is cut into chunks of 10 s, each gives one representative frame, and each frame is classified.

As published, with any number of chunks (6 here, of a video of a minute):

    {"name": "video", "input": {"maker": "video.render", "parameters": {"seconds": 60}}, "stages": [
      {"name": "split", "task": "video.split"},
      {"name": "extract", "task": "video.extract", "tasks": 6, "inputs": [{"stage": "split", "kind": "scatter"}]},
      {"name": "classify", "task": "video.classify", "tasks": 6, "inputs": [{"stage": "extract", "kind": "scatter"}]}]}

What stands for what was published: the video is rendered by us (the source's are racing videos of others; one's own is
given by `input.source`, in any form that FFmpeg reads), and the classifier is a computation of ours over 1,000 classes,
of the cost of SqueezeNet 1.1's, of which the first ten are digits. The source's is a trained network of MXNet's that it
does not name; one's own is a file in ONNX: `"files": {"model": "s3://bucket/squeezenet.onnx"}` of the stage. Frames of
the rendered video show digits, so that a label is right or wrong.

Source:
    Shankar et al. (2023), section 3.1.1 and figure 2, after Klimovic et al. (2018), Pocket, OSDI.
"""

from stepbench.deferred import deferred
from stepbench.experiments.dataflow.tasks.application_parameters import Number

LIBRARIES = ("av", "numpy")
TASKS = {
    "split": deferred("stepbench.experiments.dataflow.tasks.applications.video.frames:split"),
    "extract": deferred("stepbench.experiments.dataflow.tasks.applications.video.frames:extract"),
    "classify": deferred("stepbench.experiments.dataflow.tasks.applications.video.classifier:classify"),
}
MAKERS = {"render": deferred("stepbench.experiments.dataflow.tasks.applications.video.frames:render")}
PARAMETERS = {
    "render": {"kbit_per_s": Number(1)}
    | dict.fromkeys(("chunk_s", "frames_per_s", "height", "seconds", "width"), Number(1, whole=True)),
    "split": {"chunk_s": Number(0.1)},
    "extract": {},
    "classify": {},
}
