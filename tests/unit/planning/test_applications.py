"""A plan names tasks that there are; one that does not is refused before anything is made."""

from __future__ import annotations

from typing import Any

import pytest
from tests.samples.dags import dataflow_trial, stage
from tests.samples.refusals import Refused, plan_of, problems_of_plan

from stepbench.planning.reading import parse_plan


def dag(task: str, maker: str = "synthetic.bytes") -> dict[str, Any]:
    """Return a DAG of one task."""
    return {"name": "dag", "input": {"maker": maker}, "stages": [stage("a", task=task)]}


@pytest.mark.parametrize(
    "refused",
    [
        Refused(dag("video.cut"), "trials[0].dags[0].stages[0].task", '"video.cut"', "", "video.split, video.extract"),
        Refused(dag("audio.split"), "trials[0].dags[0].stages[0].task", '"audio.split"', "add a module", "audio"),
        Refused(
            dag("synthetic.work", "video.film"), "trials[0].dags[0].input.maker", '"video.film"', "", "video.render"
        ),
    ],
    ids=["task", "application", "maker"],
)
def test_a_name_that_no_application_has_is_refused(refused: Refused) -> None:
    """An execution would end with it, on every attempt."""
    (problem,) = problems_of_plan(plan_of(dataflow_trial(refused.document)))
    assert (problem.path, problem.value) == (refused.path, refused.value)
    assert refused.remedy in problem.remedy
    assert refused.message in problem.message


@pytest.mark.parametrize(
    ("where", "name"), [("stages[0]", "otput_bytes"), ("input", "bytes")], ids=["of a task", "of a maker"]
)
def test_a_parameter_that_nobody_reads_is_refused(where: str, name: str) -> None:
    """Misspelt, it would leave the default in force without a word."""
    given = dag("synthetic.work")
    (work,) = given["stages"]
    of = work if where == "stages[0]" else given["input"]
    of["parameters"] = {name: 10}
    (problem,) = problems_of_plan(plan_of(dataflow_trial(given)))
    assert (problem.path, problem.value) == (f"trials[0].dags[0].{where}.parameters.{name}", "10")
    assert ("output_bytes" if where == "stages[0]" else "input_bytes") in problem.remedy


def test_an_input_is_made_or_fetched() -> None:
    """Who gives a file needs no maker."""
    parse_plan(plan_of(dataflow_trial({**dag("synthetic.work"), "input": {"source": "s3://files/words.txt"}})))
    (problem,) = problems_of_plan(plan_of(dataflow_trial({**dag("synthetic.work"), "input": {}})))
    assert (problem.path, problem.message) == ("trials[0].dags[0].input.maker", "is missing, and so is source")


def test_what_there_is_is_taken() -> None:
    """Of the applications with libraries, too, which are not imported for it."""
    parse_plan(plan_of(dataflow_trial(dag("learning.pca", "learning.digits"))))
