"""
The tasks of `learning`: principal components, models, and a forest.

`pca`: the images' components, learned from the training set and taken of both sets. `train`: LightGBM models of random
parts. `forest`: all of them together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lightgbm
import numpy as np
from sklearn.decomposition import PCA

from stepbench.experiments.dataflow.tasks.application import ApplicationError, TaskAnswer, TaskCall
from stepbench.experiments.dataflow.tasks.applications.learning.digits import TRAINING_SHARE, read_idx

if TYPE_CHECKING:
    from numpy.typing import NDArray

COMPONENTS = 100
TEST_STAGE = "forest"
CLASSES = 10
TREES, LEAVES = 20, 31
VALIDATION_SHARE = 0.1


def pca(call: TaskCall) -> TaskAnswer:
    """
    Give the stage named by `test_stage` (`forest`) the test set, and every other the training set.

    Parameters: `components` (100); `test_rows`, the last ones (a seventh: MNIST's 10,000 of 70,000).

    Raises:
        ApplicationError: the DAG has no input, or too few rows in it.
    """
    images, labels = read_idx(call.own_input("learning.pca", made_by="learning.digits"))
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
    training_set = {"rows": rows[:training], "labels": labels[:training]}
    test_set = {"rows": rows[training:], "labels": labels[training:]}
    test_stage = call.parameters.get("test_stage", TEST_STAGE)
    outputs = {
        consumer: [test_set if consumer == test_stage else training_set] * count
        for consumer, count in call.parts.items()
    }
    explained = round(float(model.explained_variance_ratio_.sum()), 6)
    return TaskAnswer(outputs, {"training_rows": training, "components": components, "explained_variance": explained})


def train(call: TaskCall) -> TaskAnswer:
    """
    Train on a random 90 % of the rows, each task on its own, and validate on the other 10 %.

    Parameters: `trees` (20) of each class, `leaves` (31), `boosting` (`rf`: random forest; or `gbdt`), `threads` (1).
    """
    data = call.only_input()
    rows, labels = data["rows"], data["labels"]
    order = np.random.default_rng((call.seed, call.task)).permutation(len(labels))
    validation, training = np.split(order, [round(len(order) * VALIDATION_SHARE)])
    model = lightgbm.train(
        _settings(call),
        lightgbm.Dataset(rows[training], labels[training], free_raw_data=True),
        num_boost_round=int(call.number("trees", TREES)),
    )
    accuracy = _share_right(_probabilities(model, rows[validation]), labels[validation])
    value = {"model": model.model_to_string(), "validation_accuracy": accuracy}
    return call.answer(value, {"training_rows": len(training), "validation_accuracy": round(accuracy, 6)})


def forest(call: TaskCall) -> TaskAnswer:
    """
    Average what all models say of the test set, and count how often that is right.

    Raises:
        ApplicationError: it was given no model, or not one test set.
    """
    values = [value for of_stage in call.inputs.values() for value in of_stage]
    models = [value for value in values if "model" in value]
    sets = [value for value in values if "rows" in value]
    if not models or len(sets) != 1:
        message = f"learning.forest wants models and one test set, and was given {len(models)} and {len(sets)}"
        raise ApplicationError(message)
    rows, labels = sets[0]["rows"], sets[0]["labels"]
    together = np.zeros((len(labels), CLASSES))
    for value in models:
        together += _probabilities(lightgbm.Booster(model_str=value["model"]), rows)
    accuracy = _share_right(together, labels)
    value = {"labels": together.argmax(axis=1).astype(np.uint8), "accuracy": accuracy}
    result = {
        "accuracy": round(accuracy, 6),
        "right": round(accuracy * len(labels)),
        "of": len(labels),
        "models": len(models),
        "validation_accuracy": [round(float(each["validation_accuracy"]), 6) for each in models],
    }
    return call.answer(value, result)


def _settings(call: TaskCall) -> dict[str, Any]:
    return {
        "objective": "multiclass",
        "num_class": CLASSES,
        "boosting": str(call.parameters.get("boosting", "rf")),
        "num_leaves": int(call.number("leaves", LEAVES)),
        "bagging_freq": 1,
        "bagging_fraction": 0.7,
        "feature_fraction": 0.3,
        "num_threads": int(call.number("threads", 1)),
        "seed": (call.seed + call.task) % 2**31,
        "deterministic": True,
        "force_row_wise": True,
        "verbosity": -1,
    }


def _probabilities(model: lightgbm.Booster, rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return each row's probabilities, shape (n, 10)."""
    probabilities: NDArray[np.float64] = np.asarray(model.predict(rows, num_threads=1))
    return probabilities


def _share_right(probabilities: NDArray[np.float64], labels: NDArray[np.uint8]) -> float:
    return float((probabilities.argmax(axis=1) == labels).mean())
