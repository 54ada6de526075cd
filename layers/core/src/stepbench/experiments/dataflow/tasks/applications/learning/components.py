"""The task `learning.pca`: the images' principal components, learned from the training set and taken of both sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.decomposition import PCA

from stepbench.experiments.dataflow.tasks.application import ApplicationError, TaskAnswer, TaskCall
from stepbench.experiments.dataflow.tasks.applications.learning.digits import TRAINING_SHARE
from stepbench.experiments.dataflow.tasks.applications.learning.idx import read_idx

if TYPE_CHECKING:
    from numpy.typing import NDArray

COMPONENTS = 100
TEST_STAGE = "forest"


def pca(call: TaskCall) -> TaskAnswer:
    """
    Give the stage named by `test_stage` (`forest`) the test set, and every other the training set.

    Parameters: `components` (100); `test_rows`, the last ones (a seventh: MNIST's 10,000 of 70,000).

    Raises:
        ApplicationError: the DAG has no input, or too few rows in it.
    """
    if call.dag_input is None:
        message = "learning.pca reads the DAG's input, and the DAG has none: give it one, made by learning.digits"
        raise ApplicationError(message)
    images, labels = read_idx(call.dag_input)
    training = len(images) - int(call.number("test_rows", len(images) - round(len(images) * TRAINING_SHARE)))
    components = int(call.number("components", COMPONENTS))
    if not 0 < components <= min(training, images.shape[1]) or training >= len(images):
        message = (
            f"{training} training rows of {len(images)}, of {images.shape[1]} pixels, give no {components} components"
        )
        raise ApplicationError(message)
    pixels = images.astype(np.float32) / 255
    model: Any = PCA(components, svd_solver="covariance_eigh").fit(pixels[:training])
    rows: NDArray[np.float32] = model.transform(pixels).astype(np.float32)
    parts = {True: slice(training, None), False: slice(0, training)}
    test_stage = call.parameters.get("test_stage", TEST_STAGE)
    sets = {is_test: {"rows": rows[part], "labels": labels[part]} for is_test, part in parts.items()}
    outputs = {consumer: [sets[consumer == test_stage]] * count for consumer, count in call.parts.items()}
    explained = round(float(model.explained_variance_ratio_.sum()), 6)
    return TaskAnswer(outputs, {"training_rows": training, "components": components, "explained_variance": explained})
