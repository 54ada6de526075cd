"""How the curves of a figure are distinguished: labels without what all share, a colour a setting, a dash a run."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from stepbench.analysis.comparability import STORE, format_value, shorten_path
from stepbench.report.run import columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from stepbench.report.run import Columns, WindowRow

T = TypeVar("T")
SERIES_PER_FIGURE, REPEATED_PER_FIGURE = 8, 7
"""With repeats as many as there are colours (`page.js`), since dashes tell runs apart then and not series."""
DASHES = 5
"""How many kinds of lines there are (`layers/core/charts`)."""
_SEPARATOR = re.compile(r"( · |, |[ =-]|(?<!\d)[.,]|[.,](?!\d))")
"""Words end here; a decimal point and a thousands separator are parts of theirs."""
_SYMBOL_PX, _LETTER_PX = 50, 7
"""Of a legend's entry, with the room to the next one."""
_NAMED = 3
_LETTER = re.compile(r"[^\W\d_]")


class Curve(NamedTuple):
    """
    It names a curve.

    name: in full, unique in the report. series: in full what it shares with its repeats only. parts: what its legend
    entry can be made of, by what it is: `{"name": "etcd", "writers": "writers 4", "window": "after"}`.
    """

    name: str
    series: str
    parts: Mapping[str, str]
    repeat: int = 0


class Shortened(NamedTuple):
    """Texts without the words that all of them share; `common` has these, with `…` in place of what differs."""

    common: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Legend:
    """
    It distinguishes the curves of a figure.

    `labels`: one for each series, in order, without what is `common` to all. `names`: the full name, the series and
    the dash of each curve. `captions`: a label for each curve. `repeated`: some series has several runs.
    """

    labels: tuple[str, ...]
    common: str
    names: Columns
    captions: tuple[str, ...]
    repeated: bool

    @property
    def dashes(self) -> str:
        """Describe how the runs of one series are distinguished, in words that follow what they have in common."""
        own = list(zip(self.names["series"], self.names["dash"], strict=True))
        return ", each with a dash of its own" if len(set(own)) == len(own) else f" and take turns with {DASHES} dashes"

    @property
    def params(self) -> dict[str, Any]:
        """Return the parameters of a chart that has this legend: labels, and about how wide an entry is."""
        return {"labels": self.labels, "entry_px": _SYMBOL_PX + _LETTER_PX * max(map(len, self.labels), default=0)}

    @property
    def some(self) -> str:
        """Return so many labels as tell what a folded figure has."""
        more = f" and {len(self.labels) - _NAMED} more" if len(self.labels) > _NAMED else ""
        return f"{', '.join(self.labels[:_NAMED])}{more}{f' ({self.common})' if self.common else ''}"

    @property
    def common_words(self) -> str:
        """Return what the labels leave out, after a space; empty where that is nothing."""
        return f" Common to all: {self.common}." if self.common else ""

    @property
    def line_words(self) -> str:
        """Return how the runs of one setting are drawn as lines, after a space; empty where nothing is repeated."""
        return f" The runs of one setting have its colour{self.dashes}." if self.repeated else ""

    @property
    def text(self) -> str:
        """Return all labels, and what is common to them."""
        return ", ".join(self.labels) + (f" (common to all: {self.common})" if self.common else "")


def legend_of(curves: Sequence[Curve]) -> Legend:
    """Return the legend of a figure's curves."""
    parts = {curve.series: curve.parts for curve in curves}
    common, texts = shorten_series(parts)
    labels = dict(zip(parts, texts, strict=True))
    runs = Counter(curve.series for curve in curves)
    repeated = max(runs.values(), default=0) > 1
    place = {series: number for number, series in enumerate(parts)}
    dashes = [(curve.repeat if repeated else place[curve.series]) % DASHES for curve in curves]
    rows = [(curve.name, labels[curve.series], dash) for curve, dash in zip(curves, dashes, strict=True)]
    captions = [
        labels[curve.series] + (f" · run {curve.repeat + 1}" if runs[curve.series] > 1 else "") for curve in curves
    ]
    return Legend(texts, common, columns(("curve", "series", "dash"), rows), tuple(captions), repeated)


def curve_of(row: WindowRow) -> Curve:
    """Name the curve of a window: by its trial's settings where a matrix made it, else by the trial's own name."""
    trial = row.trial
    parts = {"name": trial.group or row.trial_label}
    if trial.point and not any(isinstance(value, dict | list) for value in trial.point.values()):
        parts = {"name": trial.base, **{path: _setting(path, trial.point) for path in trial.point}}
    if len(trial.windows) > 1:
        parts["window"] = row.window_label
    return Curve(row.label, series_of(row), parts, trial.repeat)


def series_of(row: WindowRow) -> str:
    """Return in full what the runs of one setting have in common: their group, and the window of several."""
    group = row.trial.group or row.trial_label
    return f"{group} · {row.window_label}" if len(row.trial.windows) > 1 else group


def _setting(path: str, point: Mapping[str, object]) -> str:
    """Return a setting's value with its short name; a store's name says by itself what it is."""
    value = format_value(point[path])
    return value if path == STORE else f"{shorten_path(path, list(point))} {value}"


def shorten_series(series: Mapping[str, Mapping[str, str]]) -> Shortened:
    """
    Name each series by the parts in which it differs from another one.

    Args:
        series: the parts by the series' full name.

    Returns:
        Texts that are as different as the full names, none of them empty.
    """
    kinds = dict.fromkeys(kind for parts in series.values() for kind in parts)
    found = {kind: _shorten_kind(kind, [parts.get(kind, "") for parts in series.values()]) for kind in kinds}
    texts = [" · ".join(filter(None, own)) for own in zip(*(each.texts for each in found.values()), strict=True)]
    if len(set(texts)) < len(series) or not all(texts):
        return cut_shared_words(list(series))
    return Shortened(", ".join(filter(None, (each.common for each in found.values()))), tuple(texts))


def _shorten_kind(kind: str, texts: Sequence[str]) -> Shortened:
    if len(set(texts)) == 1:
        return Shortened(texts[0], ("",) * len(texts))
    return cut_shared_words(texts) if kind in {"name", "window"} else Shortened("", tuple(texts))


def cut_shared_words(texts: Sequence[str]) -> Shortened:
    """
    Leave out the words that all texts begin with, and those that all end with.

    Each keeps a word with a letter in it: a number alone keeps the word before it, since it says nothing by itself.
    """
    if len(set(texts)) < 2:  # noqa: PLR2004 -- nothing to tell apart
        return Shortened("", tuple(texts))
    cuts = _cuts([_SEPARATOR.split(text) for text in texts])
    return next(cut for cut in cuts if not cut.common or all(map(_LETTER.search, cut.texts)))


def _cuts(texts: Sequence[Sequence[str]]) -> Iterator[Shortened]:
    """Yield all that can be cut, most first, nothing last; texts have words at even places, separators between."""
    most = min(len(parts) // 2 for parts in texts)
    ahead = _shared([parts[: 2 * most] for parts in texts])
    behind = _shared([parts[::-1][: 2 * (most - ahead)] for parts in texts])
    for begin, end in [*((n, behind) for n in range(ahead, 0, -1)), *((0, n) for n in range(behind, -1, -1))]:
        head, tail = texts[0][: 2 * begin], texts[0][len(texts[0]) - 2 * end :]
        common = "".join([*head, "…", *tail] if head and tail else head[:-1] or tail[1:])
        yield Shortened(common, tuple("".join(parts[2 * begin : len(parts) - 2 * end]) for parts in texts))


def _shared(texts: Sequence[Sequence[str]]) -> int:
    """Return how many words all begin with, each with the separator after it."""
    equal = takewhile(lambda parts: len(set(parts)) == 1, zip(*texts, strict=True))
    return sum(1 for _ in equal) // 2


def figure_parts(drawn: Sequence[T], row_of: Callable[[T], WindowRow]) -> Iterable[list[T]]:
    """Split into figures of so many series at most, each with all its runs, and of about as many as the others have."""
    for series in by_series(drawn, row_of):
        most = SERIES_PER_FIGURE if all(len(runs) == 1 for runs in series) else REPEATED_PER_FIGURE
        figures = -(-len(series) // most)
        for number in range(figures):
            start, end = (len(series) * place // figures for place in (number, number + 1))
            yield [each for runs in series[start:end] for each in runs]


def by_series(drawn: Sequence[T], row_of: Callable[[T], WindowRow]) -> Iterable[list[list[T]]]:
    """Yield each experiment's series, since their latencies differ; of each series all runs."""
    for experiment in ("trigger", "operations", "dataflow"):
        series: dict[str, list[T]] = {}
        for each in drawn:
            if row_of(each).trial.experiment == experiment:
                series.setdefault(series_of(row_of(each)), []).append(each)
        yield list(series.values())
