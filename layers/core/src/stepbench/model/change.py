"""What a watch sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Change(NamedTuple):
    """
    One change that a watch has seen; of a deletion `value` is the key.

    `position` orders changes and names one (etcd: mod_revision).
    """

    value: bytes
    position: int


class ChangeBatch(NamedTuple):
    """Changes that arrived together, stamped before anything of them was parsed."""

    t4_ns: int
    changes: Sequence[Change]
