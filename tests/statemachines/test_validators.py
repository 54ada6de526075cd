"""The two public validators: the schema that cfn-lint ships, and npm's asl-validator."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cfnlint.api import lint_all  # type: ignore[import-untyped] # it has none

if TYPE_CHECKING:
    from tests.statemachines.conftest import Machine

ROOT = Path(__file__).parents[2]
SCHEMA_RULE = "E3601"


def _schema_findings(definition: dict[str, Any]) -> list[str]:
    text = re.sub(r"\$\{\w+\}", "arn:aws:lambda:us-east-1:000000000000:function:any", json.dumps(definition))
    properties = {"RoleArn": "arn:aws:iam::000000000000:role/any", "DefinitionString": text}
    template = {"Resources": {"Machine": {"Type": "AWS::StepFunctions::StateMachine", "Properties": properties}}}
    return [str(found) for found in lint_all(json.dumps(template)) if found.rule.id == SCHEMA_RULE]


@pytest.fixture(scope="session")
def asl_validator() -> Path:
    """The command, installed from the committed lock; without node and npm this fails, since CI promises them."""
    wanted = json.loads((ROOT / "package-lock.json").read_text())["packages"]["node_modules/asl-validator"]["version"]
    installed = ROOT / "node_modules" / "asl-validator" / "package.json"
    if not installed.exists() or json.loads(installed.read_text())["version"] != wanted:
        npm = shutil.which("npm") or pytest.fail("npm is missing; install Node.js")
        arguments = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run([npm, *arguments], cwd=ROOT, check=True, capture_output=True, timeout=240)
    return ROOT / "node_modules" / ".bin" / "asl-validator"


def _validate(command: Path, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([command, "--json-path", path], capture_output=True, text=True, check=False, timeout=60)


def test_the_schema_accepts_the_machine(machine: Machine) -> None:
    """It is the schema by which CloudFormation users are told of mistakes."""
    assert _schema_findings(machine.definition) == []


def test_the_schema_check_can_fail(machine: Machine) -> None:
    """A gate that lets everything through looks the same as a good machine."""
    broken = {**machine.definition, "States": {**machine.definition["States"], "Odd": {"Type": "Tusk"}}}
    assert len(_schema_findings(broken)) == 1


def test_asl_validator_accepts_the_machine(machine: Machine, asl_validator: Path) -> None:
    """It knows JSONPath and rules between fields, which the schema does not."""
    answer = _validate(asl_validator, ROOT / "statemachines" / f"{machine.name}.asl.json")
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_asl_validator_can_fail(machine: Machine, asl_validator: Path, tmp_path: Path) -> None:
    """The same for the other gate, by a Next that leads nowhere."""
    first = machine.definition["StartAt"]
    states = machine.definition["States"]
    broken = {**machine.definition, "States": {**states, first: {**states[first], "Next": "Nowhere"}}}
    path = tmp_path / "broken.asl.json"
    path.write_text(json.dumps(broken))
    answer = _validate(asl_validator, path)
    assert answer.returncode != 0


def test_the_lock_names_no_registry() -> None:
    """Whoever installs has a registry of their own."""
    assert "resolved" not in (ROOT / "package-lock.json").read_text()
