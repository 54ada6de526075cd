"""What a new store has to touch, by adding one: the example store, in a copy of this checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
CORE = "layers/core/src/stepbench"
EXAMPLE, ITS_TESTS = "tests/support/example_store", "tests/unit/support"
ROOM, TESTS, TARGETS = f"{CORE}/drivers/example", "tests/integration/drivers/example", f"{CORE}/contracts/target.py"
MADE = (
    *(".git", ".venv", ".stepbench", ".aws-sam", ".*_cache", ".hypothesis"),
    *("node_modules", "out", "__pycache__", ".tools"),
)
"""What set-up, runs and tests leave in a checkout."""
GENERATORS = {
    "docs/plan.schema.json": "stepbench_tools.cli schema",
    "docs/summary.schema.json": "stepbench.report.summary",
    "docs/openapi.json": "stepbench_tools.documents.openapi",
    "": "stepbench_tools.documents.pages",
}
"""The modules of `make generated`, by the file that takes what they print."""
GENERATED = {
    "README.md",
    "docs/openapi.json",
    "docs/plan.schema.json",
    *(f"docs/{name}" for name in ("drivers.md", "plans.md", "stores.md")),
}
HELD_BY = (
    *("tests/layout/test_stores.py", "tests/layout/test_project.py", "tests/unit/drivers/test_registry.py"),
    *("tests/unit/contracts/test_target.py", "tests/unit/planning/test_schema.py", "tests/unit/tools/documents"),
    *("tests/unit/experiments/trigger/test_catalogue.py", "tests/unit/tools/cli/test_environment.py"),
    *("tests/integration/drivers/test_unreachable.py", TESTS),
)
"""The tests that are about every store, and the store's own."""
CHOSEN = "example or current or room or listed"
"""Of these: those of the example, and what holds pages and lists."""


class Copy:
    """A copy of the checkout, in which commands find the copy's packages before those that are installed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.copytree(ROOT, root, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*MADE))
        self.begun = self._texts()
        self.by_hand: set[str] = set()

    def _texts(self) -> dict[str, bytes]:
        return {str(path.relative_to(self.root)): path.read_bytes() for path in self._files()}

    def _files(self) -> Iterator[Path]:
        return (path for path in self.root.rglob("*") if path.is_file() and path.suffix not in {".pyc", ".pyo"})

    def changed(self) -> set[str]:
        """Return what differs from the checkout, or is new."""
        return {name for name, text in self._texts().items() if self.begun.get(name) != text}

    def move(self, source: str, target: str, *replaced: tuple[str, str]) -> None:
        """Write a file of the example where a store of the product has it."""
        text = (ROOT / source).read_text("utf-8")
        for before, after in (("tests.support.example_store", "stepbench.drivers.example"), *replaced):
            text = text.replace(before, after)
        (self.root / target).parent.mkdir(exist_ok=True)
        (self.root / target).write_text(text, "utf-8")

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a module of the copy."""
        places = (self.root / "layers/core/src", self.root / "tools/src", self.root)
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places)), "PYTHONDONTWRITEBYTECODE": "1"}
        arguments = [sys.executable, "-m", *command]
        return subprocess.run(arguments, cwd=self.root, env=environ, capture_output=True, text=True, check=False)


def add_example(copy: Copy) -> None:
    """Do what `docs/writing-a-driver.md` says, by hand."""
    for name in ("__init__.py", "driver.py", "connection.py", "features.py", "README.md"):
        copy.move(f"{EXAMPLE}/{name}", f"{ROOM}/{name}")
    of_target = ("stepbench.drivers.example.target", "stepbench.contracts.target")
    named = ("ExampleTarget(", 'ExampleTarget(store="example", ')
    served = ("stepbench.drivers.example.server", "tests.support.example_store.server")
    moved = ("tests.unit.support.conftest", "tests.integration.drivers.example.conftest")
    for name in ("conftest.py", "test_example_store.py"):
        copy.move(f"{ITS_TESTS}/{name}", f"{TESTS}/{name}", of_target, served, moved, named)
    model = (ROOT / EXAMPLE / "target.py").read_text("utf-8")
    model = model[model.index("class ") :].replace('Literal["example"] = "example"', 'Literal["example"]')
    targets = copy.root / TARGETS
    text = targets.read_text("utf-8").replace("\nTarget = Annotated[", f"\n{model}\n\nTarget = Annotated[")
    targets.write_text(text.replace("    | ReferenceTarget,", "    | ReferenceTarget\n    | ExampleTarget,"), "utf-8")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """Return a copy with the example store."""
    copy = Copy(tmp_path_factory.mktemp("checkout"))
    add_example(copy)
    copy.by_hand = copy.changed()
    return copy


def test_the_places_are_those_that_the_page_lists(copy: Copy) -> None:
    """One file that others share, and two folders of the store's own; if it is more one day, the page has to say so."""
    places = {name if name == TARGETS else name.rpartition("/")[0] for name in copy.by_hand}
    assert places == {TARGETS, ROOM, TESTS}
    page = (ROOT / "docs/writing-a-driver.md").read_text("utf-8")
    table = page.partition("## The places")[2].partition("\n## ")[0]
    listed = [each.replace("<store>", "example") for each in re.findall(r"^\| `(.+?)` \|", table, re.MULTILINE)]
    assert listed == ["contracts/target.py", "drivers/example/", f"{TESTS}/"]


def test_the_rest_is_generated_and_whatever_is_about_every_store_holds(copy: Copy) -> None:
    """Nothing else has to know the store: not the registry, the estimates, the command line, the API, nor the pages."""
    for name, module in GENERATORS.items():
        done = copy.run(*module.split())
        assert done.returncode == 0, done.stderr
        if name:
            (copy.root / name).write_text(done.stdout, "utf-8")
    generated = copy.changed() - copy.by_hand
    assert generated == GENERATED
    assert all("example" in (copy.root / name).read_text("utf-8") for name in generated)
    listed = copy.run("stepbench_tools.cli", "stores")
    assert re.search(r"^example +pull: WATCH by prefix", listed.stdout, re.MULTILINE)
    held = copy.run("pytest", "-q", "-rf", "-p", "no:cacheprovider", "-k", CHOSEN, *HELD_BY)
    assert held.returncode == 0, held.stdout[-4_000:]
