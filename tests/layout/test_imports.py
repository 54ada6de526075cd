"""Imports point one way (docs/architecture.md), what is pure stays so, and the core layer has what functions import."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stepbench.contracts.target import target_models
from stepbench.contracts.transfer.plan import FilesTarget

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "layers/core/src"
PACKAGE = SOURCES / "stepbench"
TOOLS, CHARTS = ROOT / "tools/src/stepbench_tools", ROOT / "layers/core/charts/stepbench_charts"
PREFIXES = {PACKAGE: "", TOOLS: "tools/", CHARTS: "charts/"}
"""How a module of each package is called here: a room of the core by its name, those of the tools below theirs."""
FLOORS = (
    "compiled",
    "deferred",
    "errors",
    "clock",
    "settings",
    "traces",
    "observability",
    "contracts",
    "digits",
    "model",
    "stats",
    "workload",
    "wire",
    "records/formats",
    "records/storage",
    "records/join",
    "records/export",
    "services",
    "drivers",
    "tuning",
    "load",
    "costs",
    "analysis",
    "report",
    "experiments/protocol",
    "experiments/trigger",
    "experiments/operations",
    "experiments/transfer",
    "experiments/dataflow",
    "experiments/registry",
    "experiments/estimates",
    "experiments/report",
    "planning",
    "progress",
    "dashboard",
    "loading",
    "stages",
    "api",
    "load_host",
    "charts",
    "tools/prices",
    "tools/junit",
    "tools/printing",
    "tools/tuning",
    "tools/calibration",
    "tools/local",
    "tools/rehearsal",
    "tools/documents",
    "tools/cli",
)
"""From the ground up: a room imports only from itself and from floors below it, for types, too."""
AWS = {"boto3", "botocore", "mypy_boto3_s3", "mypy_boto3_dynamodb", "aws_lambda_powertools"}
KNOWS_NO_AWS = (
    "stats",
    "report",
    "dashboard",
    "contracts",
    "costs",
    "planning",
    "tools/calibration",
    "tools/printing",
    "tools/junit",
)
PURE_OF_IO = ("stats", "contracts", "workload", "tools/calibration")
"""No clock, no randomness of their own, no files, no network."""
SERVERS = tuple(f"tools/calibration/{name}" for name in ("reference_store/", "reference_bucket"))
"""Servers of ours, and what asks them, have to do I/O: they alone are exempt."""
EFFECTS = {"time", "random", "socket", "subprocess", "os", "asyncio", "threading"}


@cache
def _modules() -> tuple[tuple[str, frozenset[str]], ...]:
    """Return each module by its path below its package, and the modules and names of ours or others that it imports."""
    return tuple(
        (_name(path), frozenset(map(_slashed, _imports(ast.parse(path.read_text())))))
        for package in PREFIXES
        for path in sorted(package.rglob("*.py"))
    )


def _name(path: Path) -> str:
    package = next(package for package in PREFIXES if path.is_relative_to(package))
    return PREFIXES[package] + path.relative_to(package).with_suffix("").as_posix()


def _slashed(imported: str) -> str:
    """Return an imported name of ours as a path like those of modules; of a library as it is."""
    package, _, rest = imported.partition(".")
    own = {package.name: prefix for package, prefix in PREFIXES.items()}
    return own[package] + rest.replace(".", "/") if package in own else imported


def _imports(node: ast.AST, *, types: bool = True) -> Iterator[str]:
    """Yield the names that code imports, at the top of a module or inside a function; those for types if wanted."""
    for child in ast.iter_child_nodes(node):
        if not types and isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        elif isinstance(child, ast.Constant) and re.fullmatch(r"stepbench[\w.]+:\w+", str(child.value)):
            yield str(child.value).replace(":", ".")  # as `stepbench.deferred` is given it
        elif isinstance(child, ast.JoinedStr) and (loaded := _BY_STORE.fullmatch(ast.unparse(child)[2:-1])):
            yield from (f"stepbench.drivers.{store}{loaded[1]}" for store in STORES)
        yield from _imports(child, types=types)


STORES = (*target_models(), FilesTarget.model_fields["store"].default)
_BY_STORE = re.compile(r"\{__package__\}\.\{[\w.]+\}([\w.]*):\w+")
"""How the registry of stores names what it loads: a room, or a module of it, by the store."""


def _floor(module: str) -> str | None:
    """Return the room of a module's path; None for the package itself, and for folders of rooms."""
    return next((room for room in FLOORS if f"{module}/".startswith(f"{room}/")), None)


def test_every_module_stands_on_a_floor() -> None:
    """A new room takes its place in the order before it is imported anywhere."""
    without = {module for module, _ in _modules() if _floor(module) is None}
    assert without == {"__init__", "experiments/__init__", "records/__init__", "tools/__init__"}


def test_the_map_shows_the_floors() -> None:
    """docs/architecture.md has the picture of them, from the top down."""
    text = (ROOT / "docs/architecture.md").read_text()
    picture = text.partition("types included")[2].split("```")[1]
    rooms = [line.split("  ")[0] for line in picture.strip().splitlines()]
    assert [*rooms[:-1], *reversed(rooms[-1].split())] == [*reversed(FLOORS)]


def test_imports_point_down() -> None:
    """So that a room can be read without those above it, and no two rooms need each other; the core needs no tool."""
    wrong = {
        (module, imported)
        for module, names in _modules()
        for imported in names
        if (floor := _floor(module)) and (below := _floor(imported)) and FLOORS.index(below) > FLOORS.index(floor)
    }
    assert wrong == set()


def test_no_module_imports_itself_through_another() -> None:
    """Within a room, too, there is an order in which its files can be read."""
    modules = {module.removesuffix("/__init__"): names for module, names in _modules()}
    graph = {
        module: {found for imported in names if (found := _module_of(imported, modules)) and found != module}
        for module, names in modules.items()
    }
    assert set(TopologicalSorter(graph).static_order()) >= graph.keys()  # raises CycleError, with the cycle


def _module_of(name: str, modules: Container[str]) -> str | None:
    """Return the module that an imported name is, or stands in."""
    while name and name not in modules:
        name = name.rpartition("/")[0]
    return name or None


def _uses(package: str, banned: set[str]) -> set[tuple[str, str]]:
    """Return which modules of a room import which of the banned ones."""
    return {
        (module, imported)
        for module, names in _modules()
        for imported in names
        if f"{module}/".startswith(f"{package}/") and imported.split(".")[0] in banned
    }


@pytest.mark.parametrize("package", KNOWS_NO_AWS)
def test_what_needs_no_aws_knows_none(package: str) -> None:
    """Statistics and report are used offline, and tested without an emulator."""
    assert _uses(package, AWS) == set()


@pytest.mark.parametrize("package", PURE_OF_IO)
def test_the_pure_core_has_no_effects(package: str) -> None:
    """Clock, randomness and I/O are arguments there."""
    assert {module for module, _ in _uses(package, EFFECTS) if not module.startswith(SERVERS)} == set()


def _asks_for_an_experiment(node: ast.AST) -> bool:
    """Return whether code compares an experiment's name with one of them, or asks for a trial's model."""
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        named = any(isinstance(side, ast.Name | ast.Attribute) and _last(side) == "experiment" for side in sides)
        return named and any(isinstance(side, ast.Constant | ast.Tuple | ast.Set) for side in sides)
    asks = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"
    return asks and any(isinstance(each, ast.Name) and each.id in MODELS for each in ast.walk(node))


def _last(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


MODELS = {"TrialPlan", "TransferTrial"}


def test_only_the_registry_asks_which_experiment_a_trial_is_of() -> None:
    """What differs is in its room, or a trait (`contracts.experiment.Traits`); a new experiment is then one folder."""
    found = {
        f"{_name(path)}: {ast.unparse(node)}"
        for package in PREFIXES
        for path in package.rglob("*.py")
        if not _name(path).startswith("experiments/")
        for node in ast.walk(ast.parse(path.read_text()))
        if _asks_for_an_experiment(node)
    }
    templates = [
        path.name for path in PACKAGE.rglob("*.j2") if re.search(r"experiment\s*(==|!=|in\b)", path.read_text())
    ]
    assert (found, templates) == (set(), [])


def test_the_charts_sources_need_no_library_but_their_own() -> None:
    """They are run when the layer is built, beside Altair alone, on a machine that has nothing of ours installed."""
    names = {imported for module, imports in _modules() if module.startswith("charts/") for imported in imports}
    own = {name for name in names if _floor(name) and not name.startswith("charts/")}
    assert own == {"report/BOX_QUANTILES", *(f"report/{name}_ROW_PX" for name in ("BOX", "MATRIX", "SHARE", "SIDES"))}
    assert list(_imports(ast.parse((PACKAGE / "report/__init__.py").read_text()))) == []


@pytest.mark.parametrize("stage", ["analyse_trial", "await_arrivals", "check_precision", "render_report"])
def test_what_only_reads_records_does_not_wait_for_asyncio(stage: str) -> None:
    """Each cold start would: what a request is stands apart from how one is awaited."""
    program = f"import sys, stepbench.stages.{stage}; print('asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False\n"


def test_a_writer_of_filler_waits_for_nothing_about_plans_and_rows() -> None:
    """Its cold start is in no trial's numbers, but in every trial's time."""
    program = "import sys, stepbench.stages.run_writer; print({*sys.modules} & {'stepbench.planning', "
    program += "'stepbench.workload.rows'})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "set()\n"


def test_nothing_is_called_utils() -> None:
    """A name that says nothing collects everything."""
    banned = {"utils", "util", "helpers", "common", "misc"}
    assert [module for module, _ in _modules() if module.split("/")[-1] in banned] == []


LIMIT_BYTES = 31 * 128 * 1024
"""Unzipped, without libraries: little more than it takes with four experiments and functions of the user's own."""


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that Lambda would find at /opt/python, made by the Makefile that `sam build` runs."""
    artefacts = tmp_path_factory.mktemp("core")
    command = ["make", "--directory", str(ROOT / "layers/core"), "build-CoreLayer", f"ARTIFACTS_DIR={artefacts}"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return artefacts / "python"


PROGRAMS = (
    PACKAGE / "load_host/__main__.py",
    PACKAGE / "experiments/transfer/program/__main__.py",
    *sorted((PACKAGE / "experiments/dataflow/tasks/applications").rglob("*.py")),
)
"""
What a load host and a Fargate task start, which have their code from the layers of functions, and where tasks of DAGs
are found by their names.
"""


OFFERED = (PACKAGE / "loading.py",)
"""What the core offers to who imports it: `stepbench.load_run`."""


def test_the_core_is_what_handlers_import(layer: Path) -> None:
    """The layer is the package, whole; what no function imports lives with the tools, or is unpacked for nothing."""
    roots = (*PROGRAMS, *OFFERED)
    needed = _import_closure([*sorted((ROOT / "functions").glob("*.py")), *roots])
    needed |= {".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__") for path in roots}
    assert _paths_by_name(SOURCES).keys() == needed
    assert _paths_by_name(layer).keys() == needed


def test_it_holds_the_data_that_the_package_reads(layer: Path) -> None:
    """The figures' specifications are a product, and in no checkout before `make setup`."""
    assert (layer / "stepbench/report/charts.json").stat().st_size > 0
    assert (layer / "stepbench/report/templates/page.html.j2").is_file()


def test_it_stays_small(layer: Path) -> None:
    """Each cold start of a sandbox waits until its layers are there."""
    assert sum(path.stat().st_size for path in layer.rglob("*") if path.is_file()) < LIMIT_BYTES


def _import_closure(roots: list[Path]) -> set[str]:
    """Return the modules of ours that these files import, however late and however far away."""
    own = _paths_by_name(SOURCES)
    found: set[str] = set()
    pending = list(roots)
    while pending:
        for name in _imports(ast.parse(pending.pop().read_text()), types=False):
            parts = name.split(".")
            for module in (".".join(parts[:length]) for length in range(1, len(parts) + 1)):
                if module in own and module not in found:
                    found.add(module)
                    pending.append(own[module])
    return found


def _paths_by_name(folder: Path) -> dict[str, Path]:
    paths = {path.relative_to(folder).with_suffix(""): path for path in (folder / "stepbench").rglob("*.py")}
    return {".".join(name.parts).removesuffix(".__init__"): path for name, path in paths.items()}
