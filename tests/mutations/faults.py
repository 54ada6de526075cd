"""Faults: chosen at random from a checkout, found again in another one, planted into it."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from tests.mutations.units import Unit, units_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

LARGEST_SHARE = 4
"""No operator makes more than one fault in so many."""


@dataclass(frozen=True)
class Fault:
    """A text of a function, and the faulty one that takes its place."""

    room: str
    operator: str
    function: str
    before: str
    after: str

    @property
    def key(self) -> str:
        """Return a name that holds wherever the function lies."""
        return hashlib.sha256(repr((self.function, self.before, self.after)).encode()).hexdigest()[:10]

    @property
    def title(self) -> str:
        """Return one line for people."""
        return f"{self.key} {self.room}: {self.function}: {self.operator}: `{self.before}` -> `{self.after}`"


@dataclass(frozen=True)
class Place:
    """Where a fault goes in one checkout."""

    path: Path
    unit: Unit


def places(root: Path) -> dict[tuple[str, str], list[tuple[str, Place]]]:
    """Return all places of a checkout with their rooms, by function and text; a name may have several."""
    found = defaultdict[tuple[str, str], list[tuple[str, Place]]](list)
    for room, path, unit in units_of(root):
        found[unit.function, unit.text].append((room, Place(path, unit)))
    return found


def locate(faults: Iterable[Fault], root: Path) -> dict[Fault, Place]:
    """Return where the faults go; those that have no place of their own any more are missing."""
    known = places(root)
    candidates = {fault: known.get((fault.function, fault.before), []) for fault in faults}
    return {fault: each[0][1] for fault, each in candidates.items() if len(each) == 1}


def sample(root: Path, seed: int, count: int, only: Sequence[str] = ()) -> list[Fault]:
    """
    Choose faults: at most one a function, at least one a room, no operator above its share.

    Beyond a room's first, every function is as likely as every other, so that large rooms get more.
    """
    functions = defaultdict[tuple[str, str], list[Unit]](list)
    for found in places(root).values():
        if len(found) == 1:
            room, place = found[0]
            functions[room, place.unit.function].append(place.unit)
    order = sorted(name for name in functions if not only or name[0] in only)
    rng = random.Random(seed)  # noqa: S311  # reproducible on purpose
    rng.shuffle(order)
    faults, rooms = list[Fault](), set[str]()
    for rooms_first in (True, False):
        for room, function in order:
            taken = room in rooms if rooms_first else function in {fault.function for fault in faults}
            if (
                not taken
                and len(faults) < count
                and (fault := _choose(rng, room, functions[room, function], faults, count))
            ):
                faults.append(fault)
                rooms.add(room)
    return sorted(faults, key=lambda fault: (fault.room, fault.function))


def _choose(rng: random.Random, room: str, units: list[Unit], faults: list[Fault], count: int) -> Fault | None:
    """Return one fault of a function, made by the operator that has made the fewest so far; None if it has none."""
    used = Counter(fault.operator for fault in faults)
    options = [
        Fault(room, operator, unit.function, unit.text, after)
        for unit in units
        for operator, after in unit.variants()
        if used[operator] < count // LARGEST_SHARE
    ]
    if not options:
        return None
    operator = min(sorted({fault.operator for fault in options}), key=lambda each: (used[each], rng.random()))
    return rng.choice([fault for fault in options if fault.operator == operator])


def planted(source: bytes, faults: Iterable[tuple[Fault, Unit]]) -> bytes:
    """Return a file's text with faults in it, which lie in different places."""
    for fault, unit in sorted(faults, key=lambda each: -each[1].start):
        source = source[: unit.start] + fault.after.encode() + source[unit.end :]
    return source


def write_faults(path: Path, faults: list[Fault]) -> None:
    """Write them for people and for `read_faults`."""
    path.write_text(json.dumps([{"key": fault.key, **asdict(fault)} for fault in faults], indent=1) + "\n")


def read_faults(path: Path) -> list[Fault]:
    """Return what `write_faults` has written."""
    lines = json.loads(path.read_text())
    return [Fault(**{name: value for name, value in line.items() if name != "key"}) for line in lines]
