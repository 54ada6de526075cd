from __future__ import annotations

from typing import TYPE_CHECKING

from coverage import CoverageData
from tests.mutations.contexts import Contexts

if TYPE_CHECKING:
    from pathlib import Path


def test_tests_that_execute_least_come_first(tmp_path: Path) -> None:
    """The narrowest test is the quickest, and the likeliest to fail by this line."""
    data = CoverageData(str(tmp_path / "contexts"))
    for context, lines in (
        ("", [1, 2]),
        ("tests/b.py::whole[a|b]|setup", [2, 3]),
        ("tests/b.py::whole[a|b]|run", [4, 5]),
        ("tests/a.py::part|run", [4]),
        ("tests/a.py::other|run", [5]),
    ):
        data.set_context(context)
        data.add_lines({"/stepbench/module.py": lines})
    data.write()
    data.close()
    contexts = Contexts(tmp_path / "contexts")
    assert contexts.tests_of(tmp_path / "/stepbench/module.py", (3, 4)) == [
        "tests/a.py::part",
        "tests/b.py::whole[a|b]",
    ]
