"""Packed t4 entries as structured arrays. Those of many items at once: one by one, each costs more than it holds."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from stepbench.records.t4 import ENTRY, Entry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepbench.records.t4_planes import Planes

_KINDS = ("u1", "u1", "<u2", "<u2", "<u2", "<u4", "<i8", "<i8", "<i8")
ENTRY_TYPE = np.dtype(list(zip(Entry._fields, _KINDS, strict=True)))
"""`Entry`'s fields, as `ENTRY` lays them out."""


def unpack_together(packs: Sequence[Planes]) -> NDArray[np.void]:
    """
    The entries of one pack after the other, as a structured array with `Entry`'s fields.

    Packs that stand side by side and have as many entries, and the same planes, are unpacked in one go.
    """
    rows, at = np.empty((sum(pack.rows for pack in packs), ENTRY.size), dtype=np.uint8), 0
    for (count, places), alike in groupby(packs, key=shape_of):
        data = np.frombuffer(b"".join([pack.data for pack in alike]), dtype=np.uint8)
        data = data.reshape(-1, ENTRY.size + len(places) * count)
        own = rows[at : at + len(data) * count].reshape(len(data), count, ENTRY.size)
        own[:] = data[:, np.newaxis, : ENTRY.size]
        for begin, place in enumerate(places):
            first = ENTRY.size + begin * count
            own[:, :, place] = data[:, first : first + count]
        at += len(data) * count
    return rows.view(ENTRY_TYPE).reshape(len(rows))


def shape_of(pack: Planes) -> tuple[int, tuple[int, ...]]:
    """What packs that are unpacked in one go have in common; in order of it, most of them stand side by side."""
    return pack.rows, pack.places
