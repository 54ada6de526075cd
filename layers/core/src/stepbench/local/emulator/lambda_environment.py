"""
What a sandbox's environment has of the emulator's, and where its modules are, in whichever emulator it runs.

The shims load this by path, so it imports nothing of ours.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

INHERITED = frozenset({"PATH", "LANG", "LC_ALL", "TZ", "TMPDIR"})
"""A sandbox gets only these of the emulator's own environment: nobody's credentials, proxies or Python settings."""


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
