"""A plan names tasks that there are; one that does not is refused before anything is made."""

from __future__ import annotations

import pytest
from tests.samples.dags import dataflow_trial, stage
from tests.samples.refusals import Refused, plan_of, problems_of_plan

from stepbench.planning.reading import parse_plan


def dag(task: str, maker: str = "synthetic.bytes") -> dict[str, object]:
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


def test_what_there_is_is_taken() -> None:
    """Of the applications with libraries, too, which are not imported for it."""
    parse_plan(plan_of(dataflow_trial(dag("learning.pca", "learning.digits"))))
