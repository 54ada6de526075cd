"""Layers of another machine: Lambda's own runtime, a function's own module, and what a user then reads."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from stepbench.compiled import explain_mismatch, processor

ROOT = Path(__file__).parents[2]
LAMBDA_PYTHON = ROOT / ".stepbench/venvs/lambda/bin/python"
STARTED_ALONE = ("validate_plan", "http_api", "report_dataset", "bootstrap_dsql", "drop_results", "sweep_targets")
"""Functions that something other than a run's machine starts, and the one that every run starts with."""
WHEEL = "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp3{minor}-cp3{minor}-manylinux_2_17_{machine}\n"
ARM = WHEEL.format(minor=13, machine="aarch64") + "Tag: cp313-cp313-manylinux2014_aarch64\n"


def test_a_layer_of_another_processor_is_named_with_the_command_that_mends_it() -> None:
    """`sam deploy` alone was given Architecture=arm64, and the layers were built for the default."""
    assert explain_mismatch(WHEEL.format(minor=13, machine="x86_64"), (13, "arm64")) == (
        "the layers were built for python3.13 on x86_64, and this function runs python3.13 on arm64. "
        "Build them for that: `sam build --parameter-overrides PythonRuntime=python3.13 Architecture=arm64`, "
        "then `sam deploy`"
    )


def test_a_layer_of_another_python_is_named_as_well() -> None:
    """Compiled libraries are of one minor version."""
    found = explain_mismatch(ARM, (12, "arm64"))
    assert found.startswith(
        "the layers were built for python3.13 on arm64, and this function runs python3.12 on arm64."
    )


@pytest.mark.parametrize(
    ("wheel", "here"),
    [
        (ARM, (13, "arm64")),
        ("Tag: cp312-cp312-macosx_11_0_arm64\n", (12, "arm64")),
        ("Tag: cp312-cp312-macosx_10_12_universal2\n", (12, "arm64")),  # says of no processor that it is not for it
        ("Tag: py3-none-any\n", (12, "arm64")),
        ("", (12, "x86_64")),
    ],
)
def test_what_fits_or_says_nothing_is_not_blamed(wheel: str, here: tuple[int, str]) -> None:
    """Python's own words stand then."""
    assert explain_mismatch(wheel, here) == ""


@pytest.mark.parametrize(
    ("machine", "name"), [("aarch64", "arm64"), ("arm64", "arm64"), ("x86_64", "x86_64"), ("AMD64", "x86_64")]
)
def test_processors_have_aws_s_names(monkeypatch: pytest.MonkeyPatch, machine: str, name: str) -> None:
    """`sam build` takes no others."""
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert processor() == name


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a layer as pip leaves it for the other processor, whose library Python finds and cannot load."""
    layer = tmp_path_factory.mktemp("layer") / "python"
    other = "x86_64" if processor() == "arm64" else "aarch64"
    metadata = layer / "pydantic_core-2.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: pydantic-core\nVersion: 2.0\n")
    (metadata / "WHEEL").write_text(WHEEL.format(minor=sys.version_info.minor, machine=other))
    (layer / "pydantic_core").mkdir()
    (layer / "pydantic_core/__init__.py").write_text("from ._pydantic_core import ArgsKwargs\n")
    return layer


@pytest.mark.parametrize("module", STARTED_ALONE)
def test_lambda_answers_with_the_explanation(foreign: Path, module: str) -> None:
    """By Lambda's own runtime, and before any contract is imported: a stage could not say it any more."""
    program = (
        "import awslambdaric.bootstrap as runtime\n"
        f"try: runtime._get_handler('{module}.handler')\n"
        "except runtime.FaultException as fault: print(fault.exception_type, fault.msg)"
    )
    path = f"{foreign}:{ROOT / 'layers/core/src'}:{ROOT / 'functions'}"
    answer = subprocess.run(
        [LAMBDA_PYTHON, "-P", "-c", program],
        env={"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    name = f"Runtime.ImportModuleError Unable to import module '{module}': the layers were built for python3."
    assert answer.stdout.startswith(name)
    assert f"Architecture={processor()}`, then `sam deploy`" in answer.stdout
