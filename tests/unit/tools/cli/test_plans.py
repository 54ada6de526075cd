"""The commands about plans."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepbench.planning import find_plan, parse_plan, questions
from stepbench_tools.cli import main
from stepbench_tools.cli.yaml_plan import read_yaml


def test_presets_are_listed_by_the_question_that_they_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """Of fifty names in a row, a user finds none; a preset that does not parse would end this with 2."""
    assert main(["plans"]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == "How long after my write does my function run?"
    assert [line.split()[0] for line in rest if line.startswith("  ")] == [
        name for q in questions() for name in q.presets
    ]


@pytest.mark.parametrize("options", [[], ["--yaml"]])
def test_a_preset_that_is_shown_is_a_plan_to_change(capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    """`stepbench plans show quick-sql > mine.json` is how most plans begin."""
    assert main(["plans", "show", "quick-sql", *options]) == 0
    text = capsys.readouterr().out
    shown = read_yaml(text) if options else json.loads(text)
    assert parse_plan(shown) == parse_plan(find_plan("quick-sql"))


def test_an_unknown_preset_is_told_with_the_three_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    """The list of all would scroll the message away."""
    assert main(["plans", "show", "quick-unlaoded"]) == 2
    assert 'Did you mean "quick-unloaded", "quick-unloaded-s3", "quick-unloaded-etcd"?' in capsys.readouterr().err


def test_the_template_is_a_plan_with_its_comments(capsys: pytest.CaptureFixture[str]) -> None:
    """It is the first plan that somebody runs."""
    assert main(["init"]) == 0
    assert capsys.readouterr().out == "plan.yaml\n"
    assert Path("plan.yaml").read_text().count("#") > 10
    assert main(["validate", "plan.yaml"]) == 0


def test_the_template_overwrites_nobody_s_plan(plan: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Unless that is asked for; and JSON has no comments to write."""
    Path("mine.yaml").write_text("mine")
    assert main(["init", "mine.yaml"]) == 2
    assert Path("mine.yaml").read_text() == "mine"
    assert "--force" in capsys.readouterr().err
    assert main(["init", "mine.yaml", "--force"]) == 0
    assert Path("mine.yaml").read_text() != "mine"
    assert main(["init", plan, "--force"]) == 2


def test_schema_is_json_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    """An editor takes it so."""
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "Stepbench plan"
