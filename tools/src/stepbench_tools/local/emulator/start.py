"""
Start an emulator, patched by its shim: `python -P start.py ministack`.

Run by path with the interpreter of the emulator's environment, which has nothing of ours; so neither this file nor the
shim, nor what that loads, imports anything of ours. An emulator is changed in memory only; a symbol that is missing
stops the start with a message, since a half-patched emulator would measure something else.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = Path(__file__).parent


def neighbour(path: Path) -> Any:  # noqa: ANN401 -- a module
    """Load a module by its path: its folder is not on the import path, where its names would hide other packages."""
    found = importlib.util.spec_from_file_location(f"stepbench_{path.stem}", path)
    if found is None or found.loader is None or not path.exists():
        sys.exit(f"emulator: {path} is missing")
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module  # dataclasses look their module up
    found.loader.exec_module(module)
    return module


def load(patched: Mapping[str, str], remedy: str) -> dict[str, Any]:
    """
    Import the modules to patch, by name.

    Args:
        patched: the symbols that are built upon, with blanks between them, by `module` or `module:class`.
        remedy: what to do where the emulator is not there, or another version ("install x==1").

    Raises:
        SystemExit: a module or a symbol is missing: half patched, an emulator would measure something else.
    """
    modules: dict[str, Any] = {}
    for name, symbols in patched.items():
        module, _, holder = name.partition(":")
        try:
            found = modules[module] = importlib.import_module(module)
        except ImportError as error:
            sys.exit(f"emulator: cannot import {name} ({error}); {remedy}")
        held = getattr(found, holder) if holder else found
        if missing := [symbol for symbol in symbols.split() if not hasattr(held, symbol)]:
            lacks = f"{name.replace(':', '.')} has no {', '.join(missing)}"
            sys.exit(f"emulator: {lacks}, which this version of Stepbench builds on; {remedy}")
    return modules


def main(kind: str) -> None:
    """Patch and serve; the environment has all other settings."""
    neighbour(HERE / kind / "shim.py").main(load, neighbour)


if __name__ == "__main__":
    chosen = sys.argv[1]
    sys.argv = sys.argv[:1]
    main(chosen)
