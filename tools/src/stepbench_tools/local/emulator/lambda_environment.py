"""
What every sandbox's environment has, and where its modules are, in whichever emulator it runs.

The shims load this by path, so it imports nothing of ours.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LAMBDAS = {"PATH": "/var/lang/bin:/usr/local/bin:/usr/bin:/bin:/opt/bin", "TZ": ":UTC", "LANG": "C.UTF-8"}
"""Lambda's own, and nothing of the host's. (Its LANG is en_US.UTF-8, which not every machine has.)"""


def base_environment() -> dict[str, str]:
    """Return what a sandbox has whatever its function: Lambda's own, and the folder over which it mounts its /tmp."""
    folder = Path(tempfile.gettempdir(), "tmp")
    folder.mkdir(parents=True, exist_ok=True)
    return {**LAMBDAS, "TMPDIR": str(folder)}


def module_path(code: str, layers: Iterable[Path]) -> str:
    """
    Return PYTHONPATH for a function: its code, then its layers in the order in which Lambda finds their modules.

    Lambda unpacks layers over each other into /opt, so a later layer wins; here each has a folder of its own, shared
    by all functions that use it, so the last comes first.

    Args:
        code: the folder of the function's code.
        layers: the folders of its layers, in the order of its configuration.
    """
    roots = [layer / "python" for layer in reversed(list(layers))]
    paths = [path for root in roots for path in (*sorted(root.glob("lib/python3*/site-packages")), root)]
    return os.pathsep.join([code, *map(str, paths)])


def library_path(layers: Iterable[Path]) -> str:
    """Return LD_LIBRARY_PATH for a function: what Lambda has in /opt/lib, from the last layer to the first."""
    return os.pathsep.join(str(layer / "lib") for layer in reversed(list(layers)) if (layer / "lib").is_dir())
