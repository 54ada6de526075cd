"""A store is complete: each place that `docs/writing-a-driver.md` lists is there for all stores that there are."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, cast

import pytest
from tests.support.contracts.blobs import BlobsContract
from tests.support.contracts.filter import FilterContract
from tests.support.contracts.operations import OperationsContract
from tests.support.contracts.trigger import TriggerContract
from tests.support.contracts.watch import WatchContract

from stepbench.contracts.target import StoreTarget, target_models
from stepbench.contracts.transfer.plan import FilesTarget
from stepbench.drivers import registry
from stepbench.drivers.protocol import StoreRoom
from stepbench_tools.local.store_list import is_started_here, store_list

if TYPE_CHECKING:
    from stepbench.contracts.target import Target

ROOT = Path(__file__).parents[2]
DRIVERS = "stepbench.drivers"
WALK_THROUGH = ROOT / "docs/writing-a-driver.md"
PACKAGE = ROOT / "layers/core/src/stepbench"
INTEGRATION = ROOT / "tests/integration/drivers"
EACH_STORE = pytest.mark.parametrize(("store", "model"), target_models().items())


@pytest.fixture(scope="module")
def collected() -> dict[str, dict[str, set[str]]]:
    """Return the names of the integration tests that pytest collects, by the store's folder and by class."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", str(INTEGRATION)]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for store, group, test in re.findall(r"^tests/integration/drivers/(\w+)/.+?::(\w+)::(\w+)", listed, re.MULTILINE):
        found[store][group].add(test)
    return found


def test_every_room_has_a_target() -> None:
    """Whatever is derived from `Target`, which is nearly all here, does not miss a store that is not in it."""
    names = [module.name for module in iter_modules([str(PACKAGE / "drivers")])]
    rooms = {name for name in names if hasattr(import_module(f"{DRIVERS}.{name}"), "ROOM")}
    files = {FilesTarget.model_fields["store"].default}  # which is no store of triggers and operations
    assert rooms == target_models().keys() | files


@EACH_STORE
def test_a_store_has_a_room_that_offers_what_its_target_declares(store: str, model: type[StoreTarget]) -> None:
    """A plan that the rules admit would else fail when the run has begun."""
    room = import_module(f"{DRIVERS}.{store}").ROOM
    assert isinstance(room, StoreRoom)
    assert (room.trigger is not None) == (model.trigger is not None)
    assert (room.operations is not None) == bool(model.operations)
    assert (room.blobs is not None) == model.holds_blobs


@EACH_STORE
def test_the_registry_finds_the_room(store: str, model: type[StoreTarget]) -> None:
    """By the store's name, and nothing else has to know it."""
    target = cast("Target", model.model_validate({"store": store}))
    assert registry.room_of(target) is import_module(f"{DRIVERS}.{store}").ROOM


@EACH_STORE
def test_a_store_passes_the_contracts_that_it_declares(
    collected: dict[str, dict[str, set[str]]], store: str, model: type[StoreTarget]
) -> None:
    """What is declared and not tested is a promise; a class that pytest does not collect tests nothing."""
    declared = {
        TriggerContract: model.trigger is not None,
        WatchContract: model.trigger == "pull",
        FilterContract: model.filters is not None,
        OperationsContract: bool(model.operations),
        BlobsContract: model.holds_blobs,
    }
    assert all(_tests_of(contract) for contract in declared)
    classes = collected[store].values()
    assert {each: any(_tests_of(each) <= tests for tests in classes) for each in declared} == declared


def _tests_of(contract: type) -> set[str]:
    return {name for name in dir(contract) if name.startswith("test_")}


@EACH_STORE
def test_a_store_is_described(store: str, model: type[StoreTarget]) -> None:
    """Whoever picks a store needs to know what its latencies mean, and what a plan may say of it."""
    assert model.__doc__
    assert model.title
    page = (PACKAGE / "drivers" / store / "README.md").read_text("utf-8")
    assert re.match(rf"# \S.* \(`{store}`\)\n\n", page)
    own = model.model_fields.keys() - StoreTarget.model_fields.keys() - {"store"}
    assert [name for name in own if not model.model_fields[name].description] == []


def test_all_stores_are_listed() -> None:
    """`stepbench stores` is how a user finds out what is here."""
    rows = {row.store: row for row in store_list()}
    assert rows.keys() == target_models().keys()
    assert {store: rows[store].trigger for store in ("redis", "dsql")} == {
        "redis": "none: operations and dataflow",
        "dsql": "none: operations only",
    }
    assert all(is_started_here(store) or row.here.startswith("skipped: ") for store, row in rows.items())


def test_the_walk_through_quotes_the_example_store() -> None:
    """A newcomer copies what stands there."""
    example = ROOT / "tests/support/example_store"
    source = {line.strip() for path in example.glob("*.py") for line in path.read_text().splitlines()}
    quoted = re.findall(r"```python\n(.+?)```", WALK_THROUGH.read_text(), re.DOTALL)
    assert len(quoted) == 4
    lines = {line.split("  # ")[0].strip() for block in quoted for line in block.splitlines()}
    assert lines - source == set()


@pytest.mark.parametrize(
    "page",
    [WALK_THROUGH, ROOT / "docs/drivers.md", ROOT / "docs/outcomes.md", *sorted(PACKAGE.glob("drivers/*/README.md"))],
    ids=lambda page: f"{page.parent.stem}-{page.stem}",
)
def test_the_pages_on_drivers_name_what_is_there(page: Path) -> None:
    """A list of places is no good if a place has moved."""
    text = page.read_text()
    files = re.findall(r"`((?:contracts|costs|drivers|tools|tests|model|wire)/[a-z0-9_/]+(?:\.py|/))`", text)
    assert [name for name in files if not _place(name).exists()] == []
    modules = re.findall(r"`((?:wire|model|drivers)(?:\.[a-z0-9_]+)+)(\.[A-Z]\w+|\.[a-z_]+)?`", text)
    assert [name for name, _ in modules if not _is_there(name)] == []


def _place(name: str) -> Path:
    """Return the path of a file that is named below the core's package, the tools' or the checkout."""
    if name.startswith("tests/"):
        return ROOT / name
    return (
        ROOT / "tools/src/stepbench_tools" / name.removeprefix("tools/")
        if name.startswith("tools/")
        else PACKAGE / name
    )


def _is_there(dotted: str) -> bool:
    """Return whether a dotted name is a module of the package, or a name in one."""
    try:
        return bool(import_module(f"stepbench.{dotted}"))
    except ModuleNotFoundError:
        module, _, name = dotted.rpartition(".")
        return hasattr(import_module(f"stepbench.{module}"), name)
