"""Tasks and makers are found by their names: a new application is one module."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stepbench.contracts.dataflow.dag import Dag
from stepbench.experiments.dataflow.tasks import applications
from stepbench.experiments.dataflow.tasks.application import (
    ApplicationError,
    TaskAnswer,
    TaskCall,
    find_maker,
    find_task,
)

OWN = """
from stepbench.experiments.dataflow.tasks.application import TaskAnswer

TASKS = {"count": lambda call: TaskAnswer(result=call.tasks)}
"""


def test_a_module_in_the_folder_is_an_application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No list has to name it."""
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.setattr(applications, "__path__", [*applications.__path__, str(tmp_path)])
    call = TaskCall({}, None, {}, "stage", 0, 3, {}, 7)
    assert find_task("own.count")(call) == TaskAnswer(result=3)
    sys.modules.pop("stepbench.experiments.dataflow.tasks.applications.own")


@pytest.mark.parametrize(
    ("name", "refusal"),
    [("video.cut", "it has video.split, video.extract, video.classify"), ("audio.split", "no application audio")],
)
def test_an_unknown_task_is_refused_with_what_there_is(name: str, refusal: str) -> None:
    """A typing error in a plan."""
    with pytest.raises(ApplicationError, match=refusal):
        find_task(name)


def test_an_unknown_application_is_refused_with_those_there_are() -> None:
    """Whoever has misspelt one does not have to look for its name."""
    with pytest.raises(ApplicationError, match="there are learning, synthetic, video"):
        find_task("sinthetic.work")


def test_an_unknown_maker_is_refused() -> None:
    """The same, of the DAG's input."""
    with pytest.raises(ApplicationError, match=r"it has learning\.digits"):
        find_maker("learning.letters")


@pytest.mark.parametrize("name", ["video", "learning"])
def test_the_dag_in_an_applications_description_is_one(name: str) -> None:
    """It is what a reader copies, and all of its tasks are there."""
    text = Path(applications.__path__[0], name, "__init__.py").read_text()
    written, _ = json.JSONDecoder().raw_decode(text[text.index("{") :])
    dag = Dag.model_validate(written)
    for stage in dag.stages:
        assert callable(find_task(stage.task))
    assert dag.input is not None
    assert callable(find_maker(dag.input.maker or ""))


@pytest.mark.parametrize("name", ["video", "learning", "synthetic"])
def test_its_names_are_known_without_its_libraries(name: str) -> None:
    """The function that validates plans has none of them in its layers."""
    program = (
        f"import sys; import stepbench.experiments.dataflow.tasks.applications.{name};"
        "sys.exit(bool({'numpy', 'av', 'lightgbm', 'sklearn'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
