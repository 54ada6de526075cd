"""
Machine learning: principal components of images of digits, trees that are trained on them side by side, and a forest.

As published, with six trainers:

    {"name": "learning", "input": {"maker": "learning.digits", "parameters": {"rows": 70000}}, "stages": [
      {"name": "pca", "task": "learning.pca"},
      {"name": "train", "task": "learning.train", "tasks": 6, "inputs": [{"stage": "pca", "kind": "broadcast"}]},
      {"name": "forest", "task": "learning.forest", "inputs": [
        {"stage": "train", "kind": "gather"}, {"stage": "pca", "kind": "broadcast"}]}]}

The first stage gives the training set to the trainers and the test set to the stage named `forest`.

What stands for what was published: the source has the files of NIST and MNIST; ours are the digits that scikit-learn
ships, enlarged to MNIST's volume. The real files are given by `input.source`, as `tasks.read_idx` reads them. How many
components, trees and leaves the source has it does not say: ours are parameters.

Source:
    Shankar et al. (2023), section 3.1.2 and figure 3, after Carreira et al. (2018).
"""

from stepbench.deferred import deferred
from stepbench.experiments.dataflow.tasks.application_parameters import Choice, Number, Text

LIBRARIES = ("numpy", "lightgbm", "sklearn.decomposition")
TASKS = {
    "pca": deferred("stepbench.experiments.dataflow.tasks.applications.learning.tasks:pca"),
    "train": deferred("stepbench.experiments.dataflow.tasks.applications.learning.tasks:train"),
    "forest": deferred("stepbench.experiments.dataflow.tasks.applications.learning.tasks:forest"),
}
MAKERS = {"digits": deferred("stepbench.experiments.dataflow.tasks.applications.learning.tasks:make_digits")}
PARAMETERS = {
    # Of fewer rows nothing is learnt.
    "digits": {"rows": Number(700, whole=True)},
    "pca": {"components": Number(1, whole=True), "test_rows": Number(1, whole=True), "test_stage": Text()},
    "train": {
        "boosting": Choice(("rf", "gbdt")),
        "leaves": Number(2, whole=True),
        "threads": Number(0, whole=True),
        "trees": Number(1, whole=True),
    },
    "forest": {},
}
