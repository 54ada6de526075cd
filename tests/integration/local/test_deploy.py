"""`sam build` and `sam deploy` against the emulator, with a template small enough for a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stepbench.errors import LocalEnvironmentError
from stepbench.local.deploy import Deployment, build, deploy, python_runtime
from stepbench.local.emulator import start_emulator
from stepbench.local.places import Places
from stepbench.local.processes import terminate
from stepbench.local.sessions import local_client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.local.conftest import Functions

pytestmark = [pytest.mark.emulator, pytest.mark.timeout(600)]

TEMPLATE = """
AWSTemplateFormatVersion: "2010-09-09"
Transform: AWS::Serverless-2016-10-31
Parameters:
  PythonRuntime: {Type: String, Default: python3.13}
  Emulator: {Type: String, Default: ""}
Resources:
  Shared:
    Type: AWS::Serverless::LayerVersion
    Properties: {ContentUri: layers/shared, CompatibleRuntimes: [!Ref PythonRuntime]}
    Metadata: {BuildMethod: %s}
  EchoFunction:
    Type: AWS::Serverless::Function
    Properties:
      FunctionName: !Sub "${AWS::StackName}-Echo"
      CodeUri: functions
      Handler: echo.handler
      Runtime: !Ref PythonRuntime
      Layers: [!Ref Shared]
      Environment: {Variables: {EMULATOR: !Ref Emulator}}
Outputs:
  EchoName: {Value: !Ref EchoFunction}
"""
ECHO = "import os\nimport shared\ndef handler(event, context): return [shared.NAME, os.environ['EMULATOR']]"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory, places: Places) -> Places:
    """A project of one function and one layer, with the tools of this clone."""
    root = tmp_path_factory.mktemp("clone")
    for folder in ("functions", "layers/shared", "statemachines", ".stepbench"):
        (root / folder).mkdir(parents=True)
    (root / ".stepbench/venvs").symlink_to(places.root / ".stepbench/venvs")
    (root / "functions/echo.py").write_text(ECHO)
    (root / "layers/shared/shared.py").write_text("NAME = 'layer'")
    clone = Places(root, root / ".stepbench/run")
    (root / "template.yaml").write_text(TEMPLATE % python_runtime(clone))
    return clone


@pytest.fixture(scope="module")
def endpoint(clone: Places) -> Iterator[str]:
    """An emulator of its own."""
    emulator = start_emulator(clone)
    try:
        yield emulator.endpoint
    finally:
        terminate([emulator.pid])


def deployment(clone: Places, endpoint: str, **parameters: str) -> Deployment:
    """To this test's emulator."""
    return Deployment(clone, endpoint, {"PythonRuntime": python_runtime(clone), **parameters}, stack="echo")


def test_a_deployed_function_runs_with_its_layer_and_parameters(
    clone: Places, endpoint: str, functions_of: type[Functions]
) -> None:
    """The whole way from the template to an answer, with a value that has a blank in it, as the emulator's name has."""
    built = build(clone, python_runtime(clone))
    assert deploy(deployment(clone, endpoint, Emulator="MiniStack 1.5.33"), built)
    outputs = local_client("cloudformation", endpoint).describe_stacks(StackName="echo")["Stacks"][0]["Outputs"]
    name = outputs[0]["OutputValue"]
    assert functions_of(endpoint).call(name).body == ["layer", "MiniStack 1.5.33"]


def test_what_has_not_changed_is_neither_built_nor_deployed(clone: Places, endpoint: str) -> None:
    """`up` before each run has to cost nothing when nothing has changed."""
    built = build(clone, python_runtime(clone))
    deploy(deployment(clone, endpoint, Emulator="x"), built)
    artefact = clone.build / "artefacts" / "template.yaml"
    made_at = artefact.stat().st_mtime_ns

    assert build(clone, python_runtime(clone)) == built
    assert not deploy(deployment(clone, endpoint, Emulator="x"), built)
    assert artefact.stat().st_mtime_ns == made_at


def test_a_changed_parameter_is_deployed(clone: Places, endpoint: str, functions_of: type[Functions]) -> None:
    """A store that was restarted has another port."""
    built = build(clone, python_runtime(clone))
    deploy(deployment(clone, endpoint, Emulator="before"), built)
    assert deploy(deployment(clone, endpoint, Emulator="after"), built)
    assert functions_of(endpoint).call("echo-Echo").body == ["layer", "after"]


def test_a_build_that_fails_shows_sams_own_words(clone: Places, tmp_path: Path) -> None:
    """And leaves no stamp behind that would make the next build be skipped."""
    broken = Places(tmp_path, tmp_path / "run")
    for folder in ("functions", "layers/shared", "statemachines", ".stepbench"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / ".stepbench/venvs").symlink_to(clone.root / ".stepbench/venvs")
    (tmp_path / "template.yaml").write_text("Resources: [")
    for _ in range(2):
        with pytest.raises(LocalEnvironmentError, match=r"(?s)`sam build` failed.*Failed to parse template"):
            build(broken, "python3.11")
