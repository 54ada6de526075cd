"""
A document as HTML, and the environment of all templates: every text that comes from outside is escaped and printable.

Tables and figures have the numbers of their order.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NewType, assert_never

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from stepbench.errors import BLANKS, printable
from stepbench.report import document as doc

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jinja2 import BaseLoader

Html = NewType("Html", str)
"""Text that is escaped already: what this module makes, until it gives it away as `Markup`."""
_TAGS = {"strong", "b", "code", "sub"}
_NO_SCRIPT = "This figure is drawn by a script that the page carries; its numbers are in the tables."
_ZOOMS = "; drag to move, Ctrl and wheel to zoom, double click to reset"


def to_html(nodes: Iterable[doc.Node]) -> list[Markup]:
    """Render each node of one page, all at once, since their tables and figures are numbered."""
    writer = _Writer()
    return [Markup(writer.node(node)) for node in nodes]  # noqa: S704 -- escaped here


def items_to_html(sentences: Iterable[doc.Sentence]) -> list[Markup]:
    """Render sentences as entries of a list, each with its parts."""
    writer = _Writer()
    return [Markup(writer.item(each)) for each in sentences]  # noqa: S704 -- escaped here


def _text(text: doc.Text) -> Html:
    match text:
        case str():
            return Html(str(escape(printable(text, BLANKS))))
        case doc.Span():
            tag = text.style if text.style in _TAGS else "a" if text.href else "span"
            style = "" if text.style in _TAGS else text.style
            more = {"class": style, "href": text.href, "title": text.title}
            return _element(tag, _text(text.text), more, text.data)
        case _:
            return _joined(map(_text, text), "")


def _element(
    tag: str, inner: Html, given: Mapping[str, str | float] | None = None, data: doc.Data | None = None
) -> Html:
    """Return an element; attributes that are empty are left out, and raw values that are None."""
    written = "".join(f' {name}="{_text(str(value))}"' for name, value in (given or {}).items() if value != "")
    written += "".join(f' data-{name}="{_raw(value)}"' for name, value in (data or {}).items() if value is not None)
    return Html(f"<{tag}{written}>{inner}</{tag}>")


def _raw(value: doc.Value) -> Html:
    return _text(str(value).lower() if isinstance(value, bool) else str(value))


def _joined(parts: Iterable[Html | str], between: str = "\n") -> Html:
    return Html(between.join(part for part in parts if part))


class _Writer:
    """It renders nodes; tables and figures that are folded have numbers of their own: S1, S2, … (supplementary)."""

    def __init__(self) -> None:
        self._folds = 0
        self._used = Counter[str]()

    def nodes(self, nodes: Iterable[doc.Node]) -> Html:
        """Render nodes, one after the other."""
        return _joined(map(self.node, nodes))

    def node(self, node: doc.Node) -> Html:  # noqa: C901, PLR0911, PLR0912 -- one case a kind of node
        """Render a node with its parts."""
        match node:
            case doc.Section():
                return self._section(node)
            case doc.Group():
                return _element("div", self.nodes(node.parts), {"class": node.style, "id": node.name})
            case doc.Heading():
                return _element(f"h{node.level}", _text(node.text), {"id": node.name})
            case doc.Sentence():
                return _sentence("p", node)
            case doc.Sentences():
                return _list("ul", [*map(self.item, node.items)], node.most, node.rest, node.style)
            case doc.Terms():
                return _list("dl", [*map(_term, node.items)], node.most, node.rest)
            case doc.Table():
                return self._table(node)
            case doc.Figure():
                return self._figure(node)
            case doc.Fold():
                return self._fold(node)
            case doc.Chart():
                return _chart(node)
            case doc.Multiples():
                return _multiples(node)
            case doc.VectorDrawing():
                return _vector(node)
            case _ as unreachable:
                assert_never(unreachable)

    def item(self, sentence: doc.Sentence) -> Html:
        """Render a sentence as an entry of a list, with its parts."""
        return _sentence("li", sentence, self.nodes(sentence.parts))

    def _section(self, section: doc.Section) -> Html:
        title = _element("h2", _text(section.title), {"id": f"{section.name}-title"})
        given = {"id": section.name, "class": section.style, "aria-labelledby": f"{section.name}-title"}
        return _element("section", Html(f"\n{title}\n{self.nodes(section.parts)}\n"), given)

    def _fold(self, fold: doc.Fold) -> Html:
        if fold.plain:
            return self.nodes(fold.parts)
        self._folds += 1
        inner = _joined((_element("summary", _text(fold.summary)), self.nodes(fold.parts)))
        self._folds -= 1
        return _element("details", inner, {"class": fold.style})

    def _label(self, kind: str) -> Html:
        name = f"{kind} S" if self._folds else f"{kind} "
        self._used[name] += 1
        return Html(f"<b>{name}{self._used[name]}.</b> ")

    def _figure(self, figure: doc.Figure) -> Html:
        hint = _hint(zooms=figure.hint != "still", named=figure.hint == "named") if figure.hint else ""
        caption = _joined((self._label("Figure") + _text(figure.caption), hint))
        inner = _joined((self.nodes(figure.parts), _element("figcaption", caption)))
        return _element("figure", inner, {"class": figure.style})

    def _table(self, table: doc.Table) -> Html:
        caption, described = Html(""), {"aria-label": table.label}
        if not table.label:
            described = {"aria-labelledby": f"{table.name}-caption"}
            text = Html(self._label("Table") + _text(table.caption))
            caption = _element("caption", text, {"id": f"{table.name}-caption"})
        heads = _joined((_heading(each) for each in (table.columns[0], *_columns(table))), "")
        parts = [caption, _element("thead", _element("tr", heads)), *(_body(table, each) for each in table.bodies)]
        parts += [_element("tfoot", _row(table, table.foot))] if table.foot else []
        inner = _element("table", _joined(parts), {"class": table.style, "id": table.name})
        note = _element("p", _text(table.note), {"class": "note more"}) if table.note else ""
        given = {"class": "scroll", "role": "region", "tabindex": "0", **described}
        rows = sum(1 for _ in table.rows)
        whole = _whole(f"All {rows} rows, with all columns" if rows > doc.PHONE_ROWS else "All columns")
        return _joined((_element("div", _joined((inner, note)), given), whole if table.phone else ""))


def _whole(summary: str) -> Html:
    """Return what a phone opens to see the rest of what is before it."""
    return _element("details", _element("summary", _text(summary)), {"class": "whole"})


def _columns(table: doc.Table) -> list[doc.Column]:
    return [table.columns[1 + place] for place in table.columns_of("page")]


def _heading(column: doc.Column) -> Html:
    return _element("th", _text(column.heading), {"scope": "col", "class": "number" if column.number else ""})


def _body(table: doc.Table, body: doc.Body) -> Html:
    rows = [_row(table, row) for row in body.rows]
    if body.head:
        held = _element("span", _text(body.head), {"class": "held"})
        head = _element("th", held, {"scope": "rowgroup", "colspan": 1 + len(_columns(table))})
        rows.insert(0, _element("tr", head, {"class": "group"}))
    return _element("tbody", _joined(rows), data=body.data)


def _row(table: doc.Table, row: doc.Row) -> Html:
    places, covered = table.columns_of("page"), 0
    cells = [_element("th", _text(row.head.text), {"scope": "row", "class": row.head.style})]
    for place in places:
        if place >= covered:
            cell, covered = row.cells[place], place + row.cells[place].span
            cells.append(_cell(table, place, cell, sum(place <= each < covered for each in places)))
    return _element("tr", _joined(cells, ""), {"class": row.style}, row.data)


def _cell(table: doc.Table, place: int, cell: doc.Cell, across: int) -> Html:
    """Return a cell; one that takes several columns has none's style and label."""
    column = table.columns[1 + place]
    if across > 1:
        return _element("td", _text(cell.text), {"class": cell.style, "colspan": across}, cell.data)
    style = " ".join(filter(None, ("number" if column.number else "", cell.style, column.style)))
    label = (column.label or column.heading) if "cards" in table.style else None
    return _element("td", _text(cell.text), {"class": style, "title": cell.title}, {"label": label, **cell.data})


def _sentence(tag: str, sentence: doc.Sentence, below: Html | str = "") -> Html:
    given = {"class": sentence.style, "id": sentence.name}
    return _element(tag, _joined((_text(sentence.text), below)), given, sentence.data)


def _term(term: doc.Term) -> Html:
    alone = len(term.texts) == 1 and not term.texts[0].style
    inner = _text(term.texts[0].text) if alone else _joined(_sentence("p", each) for each in term.texts)
    return _joined((_element("dt", _text(term.term), data=term.data), _element("dd", inner)))


def _list(tag: str, items: Sequence[Html], most: int | None, rest: str, style: str = "") -> Html:
    """Return a list, what is beyond the first of it folded; on a phone with what opens the first."""
    others = items[most:] if most is not None else ()
    found = [_element(tag, _joined(items[:most]), {"class": style})]
    if style and len(items) > doc.PHONE_SENTENCES:
        found.append(_whole(f"All {len(items)}"))
    if others:
        summary = _element("summary", _text(f"{rest} ({len(others)})"))
        inner = _joined((summary, _element(tag, _joined(others), {"class": style})))
        found.append(_element("details", inner, {"class": "fold rest"}))
    return _joined(found)


def _chart(chart: doc.Chart) -> Html:
    inner = _element("p", _text(_NO_SCRIPT), {"class": "note"})
    how = {"role": "application", "aria-roledescription": "chart", "tabindex": "0", "aria-label": chart.description}
    return _element("div", inner, {"class": "chart", "id": chart.drawing.place, **how})


def _multiples(multiples: doc.Multiples) -> Html:
    found = []
    for chart in multiples.charts:
        title = _element(f"h{multiples.level}", _text(chart.title))
        inner = _joined((title, *(_sentence("p", note) for note in chart.notes), _chart(chart)))
        found.append(_element("div", inner, {"class": "multiple"}))
    whole = _whole(f"All {len(found)}") if multiples.phone and len(found) > 1 else ""
    return _joined((_element("div", _joined(found), {"class": "multiples"}), whole))


def _hint(*, zooms: bool, named: bool) -> Html:
    """Return what a figure answers to; the style sheet shows what this device can do."""

    def by(device: str, text: str) -> Html:
        return _element("span", _text(text), {"class": f"by-{device}"})

    first = by("pointer", f"Hover for numbers{_ZOOMS if zooms else ''}.") + by("touch", "Tap for numbers.")
    either = by("pointer", "click") + by("touch", "tap")
    legend = f" A {either} on a name in the legend singles it out." if named else ""
    text = (
        f"{first}\nOn a keyboard, Tab to the figure, then arrow keys.{legend} The menu at the corner saves the figure."
    )
    return _element("span", Html(text), {"class": "hint"})


_HEAD = (
    '<defs><marker id="{}" viewBox="0 0 8 8" refX="4" refY="4" markerWidth="8" markerHeight="8"'
    ' markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" class="dag-head"/></marker></defs>'
)


def _vector(drawing: doc.VectorDrawing) -> Html:
    shapes = (_element(shape.tag, _text(shape.text), shape.attributes) for shape in drawing.shapes)
    given: dict[str, str | float] = {"class": "dag", "viewBox": f"0 0 {drawing.width_px} {drawing.height_px}"}
    given |= {"width": drawing.width_px, "height": drawing.height_px, "role": "img", "aria-label": drawing.description}
    svg = _element("svg", _joined((_HEAD.format(_text(drawing.arrow)), *shapes)), given)
    return _element("div", svg, {"class": f"dag-scroll {drawing.style}"})


_BLANKS = f"\r{BLANKS}"
"""Browsers send the lines of a form's field with both, and get them back where the form is shown again."""


def template_environment(loader: BaseLoader) -> Environment:
    """Return an environment for templates of HTML."""
    return Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printed,
    )


def _printed(value: object) -> object:
    """Return what an expression puts into a page: texts as they may be shown, and what is markup already as it is."""
    return printable(value, _BLANKS) if isinstance(value, str) and not isinstance(value, Markup) else value
