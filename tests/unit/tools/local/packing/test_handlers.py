"""Handlers are found and checked by reading alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stepbench.errors import PlanError
from stepbench_tools.local.packing.folder import list_files
from stepbench_tools.local.packing.handlers import find_handler, likely_handlers

if TYPE_CHECKING:
    from pathlib import Path

HANDLER = "def handler(event, context):\n    raise RuntimeError('executed')\n"


def write(folder: Path, **files: str) -> Path:
    """Write files, whose names have `__` for a slash and `_dot_` for a dot."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(
    ("file", "name"),
    [("app_dot_py", "app.handler"), ("src__app_dot_py", "src.app.handler"), ("src__app_dot_py", "src/app.handler")],
)
def test_python_is_found_as_lambda_does(tmp_path: Path, file: str, name: str) -> None:
    """Dots and slashes are both in use; nothing is executed, or this would raise."""
    write(tmp_path, **{file: HANDLER})
    assert find_handler(tmp_path, list_files(tmp_path), name, None).language == "python"


def test_a_package_s_init_is_a_module(tmp_path: Path) -> None:
    """`app.handler` may stand in app/__init__.py."""
    (tmp_path / "app").mkdir()
    (tmp_path / "app/__init__.py").write_text(HANDLER)
    assert find_handler(tmp_path, list_files(tmp_path), "app.handler", None).file == "app/__init__.py"


@pytest.mark.parametrize(
    "text",
    [
        "from x import handler",
        "from x import *",
        "import x as handler",
        "handler = make()",
        "try:\n    from y import handler\nexcept ImportError:\n    handler = None",
        "if True:\n    def handler(e, c): ...",
    ],
)
def test_a_name_that_a_module_has_is_enough(tmp_path: Path, text: str) -> None:
    """A handler is often wrapped, or imported."""
    write(tmp_path, app_dot_py=text)
    assert find_handler(tmp_path, list_files(tmp_path), "app.handler", "python3.12").file == "app.py"


@pytest.mark.parametrize("suffix", ["js", "mjs", "cjs"])
@pytest.mark.parametrize(
    "text", ["exports.handler = async () => 1", "export const handler = () => 1", "module.exports = { handler }"]
)
def test_node_is_found_by_its_file(tmp_path: Path, suffix: str, text: str) -> None:
    """Without a runtime, the file says which language it is."""
    write(tmp_path, **{f"src__index_dot_{suffix}": text})
    assert find_handler(tmp_path, list_files(tmp_path), "src/index.handler", None).language == "nodejs"


@pytest.mark.parametrize(
    ("files", "name", "runtime", "said"),
    [
        ({"main_dot_py": HANDLER}, "app.handler", None, "app.py, app/__init__.py, app.js, app.mjs, app.cjs"),
        ({"main_dot_py": HANDLER}, "app.handler", None, 'There is "main.handler"'),
        ({"app_dot_py": HANDLER}, "app.main", None, 'It defines "handler"'),
        ({"app_dot_py": HANDLER}, "app", None, 'There is "app.handler"'),
        ({"app_dot_py": HANDLER}, "../app.handler", None, "names what is not in"),
        ({"app_dot_py": "async def handler(event, context): ..."}, "app.handler", None, "async"),
        ({"app_dot_py": "def handler(:"}, "app.handler", None, "line 1"),
        ({"app_dot_js": "exports.handler = 1"}, "app.handler", "python3.12", "app.py, app/__init__.py"),
        ({"app_dot_js": "exports.other = 1"}, "app.handler", None, "is not exported by app.js"),
        ({"app_dot_ts": "export const handler = 1"}, "app.handler", "nodejs20.x", "Compile TypeScript"),
    ],
)
def test_what_lambda_could_not_call_is_refused(
    tmp_path: Path, files: dict[str, str], name: str, runtime: str | None, said: str
) -> None:
    """With what would do in its place; on Lambda it would be an import error of each invocation."""
    write(tmp_path, **files)
    with pytest.raises(PlanError) as refused:
        find_handler(tmp_path, list_files(tmp_path), name, runtime)
    assert said in str(refused.value)
    assert str(refused.value).startswith("handler: ")


def test_the_likeliest_handler_comes_first(tmp_path: Path) -> None:
    """`init` takes it: near the top, with a usual name, and no test's."""
    other = "exports.handler = 1"
    write(tmp_path, deep__app_dot_py=HANDLER, app_dot_py=HANDLER, tests__test_app_dot_py=HANDLER, zzz_dot_js=other)
    (tmp_path / "helper.py").write_text("def handler(e, c): ...\ndef other(x): ...\n")
    names = [each.name for each in likely_handlers(list_files(tmp_path))]
    assert names == ["app.handler", "helper.handler", "zzz.handler", "deep.app.handler"]
