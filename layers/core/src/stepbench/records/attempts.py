"""Which attempts of writers left files, and which of them ended in good order with all their files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stepbench.records.layout import attempt_id

if TYPE_CHECKING:
    from stepbench.records.columns import ColumnHeader


@dataclass
class Attempts:
    """By attempt: the numbers of its files, and that of the file with which it ended in good order."""

    flushes: dict[str, set[int]] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)

    def add(self, head: ColumnHeader) -> None:
        """One more file."""
        name = attempt_of(head)
        self.flushes.setdefault(name, set()).add(head.flush)
        if head.last:
            self.last[name] = head.flush

    def whole(self) -> set[str]:
        """Attempts that ended in good order and of which every file is here."""
        return {attempt for attempt, flush in self.last.items() if self.flushes[attempt] == set(range(flush + 1))}

    def torn(self) -> set[str]:
        """The others that left a file."""
        return self.flushes.keys() - self.whole()


def attempt_of(head: ColumnHeader) -> str:
    """The id of the attempt whose file this is."""
    return attempt_id(head.phase, head.writer, head.slice, head.attempt)
