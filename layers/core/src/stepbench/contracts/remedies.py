"""The words of a remedy: what may stand there, and what was probably meant."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def alternatives(words: Iterable[object]) -> str:
    """Return `"a", "b", "c"`."""
    return ", ".join(json.dumps(word, ensure_ascii=False) for word in words)


def nearest(word: object, known: Iterable[str]) -> str:
    """Return the known word that is most like it; "" where none is."""
    close = difflib.get_close_matches(str(word).lower(), list(known), n=1, cutoff=0.5)
    return close[0] if close else ""


def near_miss(word: object, known: Iterable[str]) -> str:
    """Return `Did you mean "x"? `, or nothing."""
    close = nearest(word, known)
    return f'Did you mean "{close}"? ' if close else ""
