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
    plan = YAML(typ="safe").load(Path("plan.yaml"))
    assert plan["trials"][0]["target"]["function"]["handler"] == "app.handler"
    assert plan["thresholds"] == ["errors < 1 %", "unsent < 1 %", "failed_in_handler < 1 %"]
    assert main(["validate", "plan.yaml"]) == 0


@pytest.mark.parametrize("name", ["007", "true", "1e3", "null"])
def test_a_folder_may_be_called_as_numbers_are(name: str) -> None:
    """YAML would read another thing of it; a sample's text stays what it is, too."""
    Path(name, "events").mkdir(parents=True)
    Path(name, "app.py").write_text("def handler(event, context): ...")
    Path(name, "events/one.json").write_text('{"a": "\U0001f600 # {b}: \u00e9"}')
    assert main(["init", "--function", name]) == 0
    document = YAML(typ="safe").load(Path("plan.yaml"))
    assert document["name"] == name
    assert main(["validate", "plan.yaml"]) == 0
    assert document["trials"][0]["record"]["values"]["rows"] == [{"a": "\U0001f600 # {b}: \u00e9"}]


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
