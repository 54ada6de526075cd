"""
What a report is made of: headings, sentences, tables, figures, caveats. Page, Markdown and terminal render the same.

Pure and cheap to import. Texts are what a reader sees, never markup; what is more than text says so by its style.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from stepbench import digits
from stepbench.report.run import state_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from stepbench.contracts.result import TrialSummary
    from stepbench.report.figures import Drawing
    from stepbench.report.run import WindowRow

Output = Literal["page", "markdown", "terminal"]
PAGE: tuple[Output, ...] = ("page",)
NOT_ON_PAGES: tuple[Output, ...] = ("markdown", "terminal")
EVERYWHERE: tuple[Output, ...] = (*PAGE, *NOT_ON_PAGES)
PHONE_ROWS, PHONE_SENTENCES = 6, 2
"""A phone shows no more rows of a table and sentences of a list at once; `templates/page.css` counts them, too."""
MAX_SENTENCES = 4
"""More are folded: a matrix would have more than anyone reads."""
Value: TypeAlias = "str | float | bool | None"
Data: TypeAlias = "Mapping[str, Value]"
"""Raw values for scripts, by name: the page's `data-` attributes; without those that are None."""
_NONE: Data = MappingProxyType({})
NINETY_FIVE = f"95{digits.NBSP}%"


class Span(NamedTuple):
    """Text with a style: a name of the style sheet, or `strong`, `b`, `code`, `sub`; with `href` it is a link."""

    text: Text
    style: str = ""
    href: str = ""
    title: str = ""
    data: Data = _NONE


Text: TypeAlias = "str | Span | tuple[Text, ...]"


class Cell(NamedTuple):
    """
    What stands in one place of a table, and its raw values.

    line: how it is written on one line, where that is not the text. span: how many columns it takes on a page; the
    cells that it covers are for other outputs.
    """

    text: Text = ""
    data: Data = _NONE
    style: str = ""
    line: str | None = None
    span: int = 1
    title: str = ""

    def __str__(self) -> str:
        """Return it as it is written on one line."""
        return plain(self.text) if self.line is None else self.line


class Column(NamedTuple):
    """
    A column by its heading.

    number: aligned to the right. style: of its cells; `more`: a phone shows it when the whole table is asked for.
    label: what a phone's card calls it, if not by its heading. short: its heading in Markdown and on a terminal, if
    that is not the same in lower case.
    """

    heading: str
    number: bool = True
    style: str = ""
    label: str = ""
    short: str = ""
    outputs: tuple[Output, ...] = EVERYWHERE


def words(heading: str, style: str = "", short: str = "", outputs: tuple[Output, ...] = EVERYWHERE) -> Column:
    """Return a column of words."""
    return Column(heading, number=False, style=style, short=short, outputs=outputs)


def more(heading: str, short: str = "", outputs: tuple[Output, ...] = EVERYWHERE) -> Column:
    """Return a column of numbers that a phone shows when the whole table is asked for."""
    return Column(heading, style="more", short=short, outputs=outputs)


def columns(first: str, *others: str | Column, short: str = "") -> tuple[Column, ...]:
    """Return columns: that of the rows' heads, and others, of numbers where no more than a heading is given."""
    return (words(first, short=short), *(Column(each) if isinstance(each, str) else each for each in others))


class Row(NamedTuple):
    """A row: its head, and a cell for each column behind the first."""

    head: Cell
    cells: tuple[Cell, ...]
    data: Data = _NONE
    style: str = ""


class Body(NamedTuple):
    """Rows of a table that belong together, below a head of their own if it is not empty."""

    rows: tuple[Row, ...]
    head: Text = ""
    data: Data = _NONE


class Table(NamedTuple):
    """
    A table.

    name: unique on the page. phone: a phone shows its first rows and most needed columns until more is asked for.
    note: stands below it. whose: how Markdown calls the column of its bodies' heads. label: what it is, of one that has
    neither name nor caption nor number.
    """

    name: str
    caption: Text
    columns: tuple[Column, ...]
    bodies: tuple[Body, ...]
    style: str = "reference cards"
    phone: bool = False
    foot: Row | None = None
    note: Text = ""
    whose: str = ""
    label: str = ""

    @property
    def rows(self) -> Iterator[Row]:
        """Yield the rows of all bodies."""
        return (row for body in self.bodies for row in body.rows)

    def columns_of(self, output: Output) -> tuple[int, ...]:
        """Return the places of the columns behind the first that an output has."""
        return tuple(place for place, column in enumerate(self.columns[1:]) if output in column.outputs)

    def headings(self, output: Output) -> tuple[str, ...]:
        """Return the short headings of the columns that an output has."""
        columns = (self.columns[0], *(self.columns[1 + place] for place in self.columns_of(output)))
        return tuple(column.short or column.heading[:1].lower() + column.heading[1:] for column in columns)

    def cells(self, row: Row, output: Output) -> tuple[Cell, ...]:
        """Return a row's cells in the columns that an output has."""
        return (row.head, *(row.cells[place] for place in self.columns_of(output)))


class Sentence(NamedTuple):
    """A paragraph, or an entry of a list, which may have parts below it."""

    text: Text
    style: str = ""
    data: Data = _NONE
    name: str = ""
    parts: tuple[Node, ...] = ()


class Sentences(NamedTuple):
    """A list; what is beyond the first `most` is folded below a line that says what it is: `rest`."""

    items: tuple[Sentence, ...]
    rest: str = ""
    most: int | None = MAX_SENTENCES
    style: str = "sentences"


class Term(NamedTuple):
    """A term and what there is to it: an entry of a list of caveats."""

    term: Text
    texts: tuple[Sentence, ...]
    data: Data = _NONE


class Terms(NamedTuple):
    """A list of terms, folded like sentences."""

    items: tuple[Term, ...]
    rest: str = ""
    most: int | None = None


class Heading(NamedTuple):
    """A heading within a section; `link`: what the navigation calls it."""

    text: Text
    level: int = 3
    name: str = ""
    link: str = ""


class Chart(NamedTuple):
    """A figure that the page's script draws; description: for those who do not see it. notes: below its title."""

    drawing: Drawing
    description: str
    title: Text = ""
    notes: tuple[Sentence, ...] = ()


class Multiples(NamedTuple):
    """Charts of one kind beside one another; level: of their titles. phone: a phone shows the first one at once."""

    charts: tuple[Chart, ...]
    level: int = 4
    phone: bool = True


class Shape(NamedTuple):
    """An element of a vector drawing, by its tag."""

    tag: Literal["path", "rect", "text"]
    attributes: Mapping[str, str | float]
    text: str = ""


class VectorDrawing(NamedTuple):
    """A figure that needs no script; arrow: the name of the head that its paths may end with."""

    shapes: tuple[Shape, ...]
    width_px: float
    height_px: float
    description: str
    style: str
    arrow: str


class Figure(NamedTuple):
    """Charts with a caption; hint: what they answer to, and whether names in their legend can be singled out."""

    parts: tuple[Node, ...]
    caption: Text
    hint: Literal["", "still", "zooms", "named"] = ""
    style: str = ""


class Fold(NamedTuple):
    """What few readers need, below a line that says what it is; plain: it is not folded after all."""

    summary: str
    parts: tuple[Node, ...]
    plain: bool = False
    style: str = "fold"


class Group(NamedTuple):
    """Parts that a link can lead to."""

    name: str
    parts: tuple[Node, ...]
    style: str = ""


class Section(NamedTuple):
    """A section; `link`: what the navigation calls it."""

    name: str
    title: Text
    parts: tuple[Node, ...]
    link: str = ""
    style: str = ""


_Leaf: TypeAlias = "Heading | Sentence | Sentences | Terms | Table | Chart | Multiples | VectorDrawing"
Node: TypeAlias = "_Leaf | Section | Group | Figure | Fold"


def plain(text: Text) -> str:
    """Return a text without its styles."""
    match text:
        case str():
            return text
        case Span():
            return plain(text.text)
        case _:
            return "".join(map(plain, text))


def joined(texts: Iterable[Text], separator: str) -> Text:
    """Return texts as one, with a separator between them."""
    parts: list[Text] = []
    for text in texts:
        parts += [separator, text] if parts else [text]
    return tuple(parts)


def sentence_case(text: str) -> str:
    """Return a text as a sentence begins with it."""
    return text[:1].upper() + text[1:]


def minus(end: str, begin: str) -> str:
    """Return a difference of times that no line breaks: `t4 - t1`."""
    return f"{end}{digits.NBSP}{digits.MINUS}{digits.NBSP}{begin}"


def body(rows: Iterable[Row]) -> tuple[Body, ...]:
    """Return the bodies of a table whose rows all belong together."""
    return (Body(tuple(rows)),)


def badges(trial: TrialSummary) -> Text:
    """Return what stands beside a trial's name wherever it stands: that it is emulated, and that it is not whole."""
    state = state_of(trial)
    whole = "" if state == "complete" else (" ", Span(state, f"badge {state}"))
    return ((" ", EMULATED) if trial.emulated else "", whole)


EMULATED = Span("emulated", "badge emulated")


def named(label: str, trial: TrialSummary, text: Text, data: Data = _NONE) -> Sentence:
    """Return a sentence about a trial, with its name before it."""
    return Sentence((Span(label, "strong"), badges(trial), " ", text), data=data)


def head(label: str, trial: TrialSummary, *below: Text) -> Cell:
    """Return the head of a row about a trial, with smaller lines below its name."""
    return Cell((label, badges(trial), *(Span(text, "provider") for text in below if text)))


def of_window(row: WindowRow) -> Data:
    """Return which window a row is about."""
    return {"trial": row.trial.index, "window": row.window.name, "phase": row.window.phase}
