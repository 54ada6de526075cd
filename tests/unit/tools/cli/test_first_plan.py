"""`init`: a plan of one's own function, and the samples of the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from stepbench_tools.cli import main

SAMPLES = Path(__file__).parents[4] / "docs/samples"


@pytest.mark.parametrize("sample", ["thumbnail", "orders-python", "orders-nodejs", "audit"])
def test_a_folder_is_enough_for_a_plan(sample: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What can be seen is not asked for, and the next command is named."""
    assert main(["init", "--function", str(SAMPLES / sample)]) == 0
    assert capsys.readouterr().err.endswith("next: stepbench run plan.yaml\n")
    (trial,) = YAML(typ="safe").load(Path("plan.yaml"))["trials"]
    assert trial["target"]["function"]["handler"] == "app.handler"
    assert main(["validate", "plan.yaml"]) == 0


def test_nobody_s_plan_is_overwritten() -> None:
    """Nor is anything else."""
    Path("plan.yaml").write_text("mine")
    assert main(["init", "--function", str(SAMPLES / "audit")]) == 2
    assert Path("plan.yaml").read_text() == "mine"


def test_a_store_is_about_a_function(capsys: pytest.CaptureFixture[str]) -> None:
    """The commented plan has etcd's."""
    assert main(["init", "--store", "s3"]) == 2
    assert "--function" in capsys.readouterr().err


def test_a_folder_without_a_function_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """And no plan is written."""
    Path("empty").mkdir()
    assert main(["init", "--function", "empty"]) == 2
    assert "def handler(event, context)" in capsys.readouterr().err
    assert not Path("plan.yaml").exists()


@pytest.mark.parametrize("plan", sorted(path.name for path in SAMPLES.glob("*.yaml")))
def test_the_samples_plans_are_valid(plan: str) -> None:
    """The page's reader runs them first."""
    assert main(["validate", str(SAMPLES / plan)]) == 0
