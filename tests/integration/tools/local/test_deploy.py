"""`sam build` and `sam deploy` against the emulator, with a template small enough for a test."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.integration.tools.local.conftest import Functions

from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local.deploy import Deployment, build, deploy, exclusive_lock, python_runtime
from stepbench_tools.local.emulator.server import start_emulator
from stepbench_tools.local.paths import Paths
from stepbench_tools.local.processes import terminate
from stepbench_tools.local.stack import local_client
from stepbench_tools.local.state import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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


HOLDS_LOCK = [
    sys.executable,
    "-c",
    """import sys, pathlib, stepbench_tools.local.deploy as d
with d.exclusive_lock(pathlib.Path(sys.argv[1]), print): print('in', flush=True); sys.stdin.read()""",
]


def make_project(root: Path, tools: Path, template: str) -> Paths:
    """Make a clone's folders below `root`, with the tools of another clone."""
    for folder in ("functions", "layers/shared", "statemachines", ".stepbench"):
        (root / folder).mkdir(parents=True)
    (root / ".stepbench/venvs").symlink_to(tools / ".stepbench/venvs")
    (root / "template.yaml").write_text(template)
    return Paths(root, root / ".stepbench/run")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory, paths: Paths) -> Paths:
    """Return a project of one function and one layer, with the tools of this clone."""
    clone = make_project(tmp_path_factory.mktemp("clone"), paths.root, TEMPLATE % python_runtime(paths))
    (clone.root / "functions/echo.py").write_text(ECHO)
    (clone.root / "layers/shared/shared.py").write_text("NAME = 'layer'")
    return clone


@pytest.fixture(scope="module")
def endpoint(clone: Paths) -> Iterator[str]:
    """Start an emulator for this module."""
    emulator = start_emulator(clone)
    try:
        yield emulator.endpoint
    finally:
        terminate([emulator.pid])


def deployment(clone: Paths, endpoint: str, **parameters: str) -> Deployment:
    """Return a deployment to this module's emulator."""
    return Deployment(clone, endpoint, {"PythonRuntime": python_runtime(clone), **parameters}, stack="echo")


def test_a_deployed_function_runs_with_its_layer_and_parameters(clone: Paths, endpoint: str) -> None:
    """It goes the whole way from template to answer; the value has a blank in it, as the emulator's name has."""
    built = build(clone, python_runtime(clone))
    assert deploy(deployment(clone, endpoint, Emulator="MiniStack 1.5.33"), built)
    outputs = local_client("cloudformation", endpoint).describe_stacks(StackName="echo")["Stacks"][0]["Outputs"]
    name = outputs[0]["OutputValue"]
    assert Functions(endpoint).call(name).body == ["layer", "MiniStack 1.5.33"]


def test_what_has_not_changed_is_neither_built_nor_deployed(clone: Paths, endpoint: str) -> None:
    """`up` before each run has to cost nothing when nothing has changed."""
    built = build(clone, python_runtime(clone))
    deploy(deployment(clone, endpoint, Emulator="x"), built)
    artefact = clone.build / "artefacts" / "template.yaml"
    made_at = artefact.stat().st_mtime_ns

    assert build(clone, python_runtime(clone)) == built
    assert not deploy(deployment(clone, endpoint, Emulator="x"), built)
    assert artefact.stat().st_mtime_ns == made_at


def test_a_changed_parameter_is_deployed(clone: Paths, endpoint: str) -> None:
    """A store that was restarted has another port."""
    built = build(clone, python_runtime(clone))
    deploy(deployment(clone, endpoint, Emulator="before"), built)
    assert deploy(deployment(clone, endpoint, Emulator="after"), built)
    assert Functions(endpoint).call("echo-Echo").body == ["layer", "after"]


def test_a_build_that_fails_shows_sams_own_words(clone: Paths, tmp_path: Path) -> None:
    """No stamp is left that would make the next build be skipped."""
    broken = make_project(tmp_path, clone.root, "Resources: [")
    for _ in range(2):
        with pytest.raises(LocalEnvironmentError, match=r"(?s)`sam build` failed.*Failed to parse template"):
            build(broken, "python3.11")


def test_who_waits_for_anothers_build_says_for_whom(tmp_path: Path) -> None:
    """Minutes without a word look like a command that hangs."""
    said: list[str] = []
    command = [*HOLDS_LOCK, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "in\n"

        def waits(text: str) -> None:
            said.append(text)
            other.communicate()

        with exclusive_lock(tmp_path, waits):
            (text,) = said
            assert text.startswith(f"waiting, for 30 minutes at most, until `{sys.executable} -c ")
            assert f"(pid {other.pid}, since " in text
    with exclusive_lock(tmp_path, said.append):
        assert len(said) == 1


def test_who_waits_for_anothers_build_does_not_wait_for_ever(tmp_path: Path) -> None:
    """One that hung at "deploying" kept everybody else waiting, without bound and without a name."""
    message = rf"is still locked by `.*` \(pid {os.getpid()}, since .* UTC\) after 0 minutes; end that, or wait$"
    with (
        exclusive_lock(tmp_path, print),
        pytest.raises(LocalEnvironmentError, match=message),
        exclusive_lock(tmp_path, print, limit_s=0),
    ):
        pass


def test_an_emulator_that_is_gone_takes_no_deployment(clone: Paths) -> None:
    """Its last words are there, in place of a library's about a connection."""
    log = clone.home / "emulator.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("Cannot allocate memory\n")
    gone = Server(name="emulator", version="", endpoint="http://127.0.0.1:9", processes=(), log=str(log))
    with pytest.raises(LocalEnvironmentError, match=r"(?s)takes no deployment.*Cannot allocate memory"):
        deploy(replace(deployment(clone, gone.endpoint), emulator=gone), "built")
