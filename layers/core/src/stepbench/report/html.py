"""A document as HTML: every text is escaped and printable; tables and figures have the numbers of their order."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, assert_never

from markupsafe import Markup, escape

from stepbench.errors import BLANKS, printable
from stepbench.report.document import (
    PHONE_ROWS,
    PHONE_SENTENCES,
    Chart,
    Figure,
    Fold,
    Group,
    Heading,
    Multiples,
    Section,
    Sentence,
    Sentences,
    Span,
    Table,
    Terms,
    VectorDrawing,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from stepbench.report.document import Body, Cell, Column, Data, Node, Row, Term, Text

_TAGS = {"strong", "b", "code", "sub"}
_NO_SCRIPT = "This figure is drawn by a script that the page carries; its numbers are in the tables."
_ZOOMS = "; drag to move, Ctrl and wheel to zoom, double click to reset"


def to_html(nodes: Iterable[Node]) -> list[Markup]:
    """Render each node of one page, all at once, since their tables and figures are numbered."""
    writer = _Writer()
    return [writer.node(node) for node in nodes]


def items_to_html(sentences: Iterable[Sentence]) -> list[Markup]:
    """Render sentences as entries of a list, each with its parts."""
    writer = _Writer()
    return [_sentence("li", item, writer.nodes(item.parts)) for item in sentences]


def text_html(text: Text) -> Markup:
    """Render a text."""
    match text:
        case str():
            return escape(printable(text, BLANKS))
        case Span():
            return _span(text)
        case _:
            return Markup().join(map(text_html, text))


def _span(span: Span) -> Markup:
    inner = text_html(span.text)
    if span.style in _TAGS:
        return _element(span.style, inner, data=span.data)
    tag = "a" if span.href else "span"
    return _element(tag, inner, style=span.style, href=span.href, title=span.title, data=span.data)


def _element(
    tag: str, inner: Markup, *, style: str = "", data: Data | None = None, **attributes: str | float
) -> Markup:
    """Return an element; attributes that are empty are left out."""
    given = {"class": style, **{name.strip("_").replace("_", "-"): value for name, value in attributes.items()}}
    kept = {name: value for name, value in given.items() if value != ""}
    kept |= {f"data-{name}": _raw(value) for name, value in (data or {}).items() if value is not None}
    written = Markup().join(Markup(' {}="{}"').format(name, _value(value)) for name, value in kept.items())
    return Markup("<{0}{1}>{2}</{0}>").format(tag, written, inner)


def _raw(value: str | float | bool) -> str:  # noqa: FBT001 -- a raw value may be one
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(value: object) -> str:
    return printable(str(value), BLANKS)


def _join(*parts: Markup | str) -> Markup:
    return Markup("\n").join(part for part in parts if part)


def _whole(summary: str) -> Markup:
    """Return what a phone opens to see the rest of what is before it."""
    return _element("details", _element("summary", text_html(summary)), style="whole")


class _Writer:
    """It renders nodes; tables and figures that are folded have numbers of their own: S1, S2, … (supplementary)."""

    def __init__(self) -> None:
        self._folds = 0
        self._used = Counter[str]()

    def nodes(self, nodes: Iterable[Node]) -> Markup:
        """Render nodes, one after the other."""
        return Markup("\n").join(self.node(node) for node in nodes)

    def node(self, node: Node) -> Markup:  # noqa: C901, PLR0911, PLR0912 -- one case a kind of node
        """Render a node with its parts."""
        match node:
            case Section():
                return self._section(node)
            case Group():
                return _element("div", self.nodes(node.parts), id=node.name, style=node.style)
            case Heading():
                return _element(f"h{node.level}", text_html(node.text), id=node.name)
            case Sentence():
                return _sentence("p", node)
            case Sentences():
                return _list("ul", items_to_html(node.items), node.most, node.rest, node.style)
            case Terms():
                return _list("dl", [_term(item) for item in node.items], node.most, node.rest, "")
            case Table():
                return self._table(node)
            case Figure():
                return self._figure(node)
            case Fold():
                return self._fold(node)
            case Chart():
                return _chart(node)
            case Multiples():
                return _multiples(node)
            case VectorDrawing():
                return _vector(node)
            case _ as unreachable:
                assert_never(unreachable)

    def _section(self, section: Section) -> Markup:
        title = _element("h2", text_html(section.title), id=f"{section.name}-title")
        inner = _join("", title, self.nodes(section.parts))
        return _element("section", inner, id=section.name, style=section.style, aria_labelledby=f"{section.name}-title")

    def _fold(self, fold: Fold) -> Markup:
        if fold.plain:
            return self.nodes(fold.parts)
        self._folds += 1
        inner = _join(_element("summary", text_html(fold.summary)), self.nodes(fold.parts))
        self._folds -= 1
        return _element("details", inner, style=fold.style)

    def _label(self, kind: str) -> Markup:
        name = f"{kind} S" if self._folds else f"{kind} "
        self._used[name] += 1
        return Markup("<b>{}{}.</b> ").format(name, self._used[name])

    def _figure(self, figure: Figure) -> Markup:
        caption = self._label("Figure") + text_html(figure.caption)
        if figure.hint:
            caption += Markup("\n") + _hint(zooms=figure.hint != "still", named=figure.hint == "named")
        inner = _join(self.nodes(figure.parts), _element("figcaption", caption))
        return _element("figure", inner, style=figure.style)

    def _table(self, table: Table) -> Markup:
        places = table.columns_of("page")
        columns = [table.columns[0], *(table.columns[1 + place] for place in places)]
        caption_id, caption = "", Markup()
        if not table.label:
            caption_id = f"{table.name}-caption"
            caption = _element("caption", self._label("Table") + text_html(table.caption), id=caption_id)
        heads = [_element("th", text_html(each.heading), scope="col", style=_aligned(each)) for each in columns]
        parts = [caption, _element("thead", _element("tr", Markup().join(heads)))]
        parts += [_body(table, each) for each in table.bodies]
        parts += [_element("tfoot", _row(table, table.foot))] if table.foot else []
        inner = _join(_element("table", _join(*parts), style=table.style, id=table.name))
        if table.note:
            inner = _join(inner, _element("p", text_html(table.note), style="note more"))
        scroll = _element(
            "div", inner, style="scroll", role="region", tabindex=0, aria_label=table.label, aria_labelledby=caption_id
        )
        rows = sum(1 for _ in table.rows)
        whole = f"All {rows} rows, with all columns" if rows > PHONE_ROWS else "All columns"
        return _join(scroll, _whole(whole) if table.phone else "")


def _aligned(column: Column) -> str:
    return "number" if column.number else ""


def _body(table: Table, body: Body) -> Markup:
    rows = [_row(table, row) for row in body.rows]
    if body.head:
        held = _element("span", text_html(body.head), style="held")
        across = 1 + len(table.columns_of("page"))
        rows.insert(0, _element("tr", _element("th", held, scope="rowgroup", colspan=across), style="group"))
    return _element("tbody", _join(*rows), data=body.data)


def _row(table: Table, row: Row) -> Markup:
    cells, covered = [_element("th", text_html(row.head.text), scope="row", style=row.head.style)], 0
    places = table.columns_of("page")
    for place in places:
        if place < covered:
            continue
        cell, covered = row.cells[place], place + row.cells[place].span
        cells.append(_cell(table, table.columns[1 + place], cell, sum(place <= each < covered for each in places)))
    return _element("tr", Markup().join(cells), style=row.style, data=row.data)


def _cell(table: Table, column: Column, cell: Cell, across: int) -> Markup:
    alone = across == 1
    styles = ("number" if column.number and alone else "", cell.style, column.style if alone else "")
    label = (column.label or column.heading) if "cards" in table.style and alone else ""
    data = {"label": label or None, **cell.data}
    colspan = "" if alone else across
    return _element(
        "td", text_html(cell.text), style=" ".join(filter(None, styles)), data=data, colspan=colspan, title=cell.title
    )


def _sentence(tag: str, sentence: Sentence, below: Markup | str = "") -> Markup:
    inner = _join(text_html(sentence.text), below)
    return _element(tag, inner, style=sentence.style, id=sentence.name, data=sentence.data)


def _term(term: Term) -> Markup:
    alone = len(term.texts) == 1 and not term.texts[0].style
    inner = text_html(term.texts[0].text) if alone else _join(*(_sentence("p", each) for each in term.texts))
    return _join(_element("dt", text_html(term.term), data=term.data), _element("dd", inner))


def _list(tag: str, items: Sequence[Markup], most: int | None, rest: str, style: str) -> Markup:
    """Return a list, what is beyond the first of it folded; on a phone with what opens the first."""
    shown, others = items[:most], items[most:] if most is not None else ()
    found = [_element(tag, _join(*shown), style=style)]
    if style and len(items) > PHONE_SENTENCES:
        found.append(_whole(f"All {len(items)}"))
    if others:
        summary = _element("summary", text_html(f"{rest} ({len(others)})"))
        found.append(_element("details", _join(summary, _element(tag, _join(*others), style=style)), style="fold rest"))
    return _join(*found)


def _chart(chart: Chart) -> Markup:
    inner = _element("p", text_html(_NO_SCRIPT), style="note")
    described = {
        "role": "application",
        "aria-roledescription": "chart",
        "tabindex": "0",
        "aria-label": chart.description,
    }
    return _attributed("div", inner, {"class": "chart", "id": chart.drawing.place, **described})


def _multiples(multiples: Multiples) -> Markup:
    found = [
        _element(
            "div",
            _join(
                _element(f"h{multiples.level}", text_html(chart.title)),
                *(_sentence("p", note) for note in chart.notes),
                _chart(chart),
            ),
            style="multiple",
        )
        for chart in multiples.charts
    ]
    whole = multiples.phone and len(found) > 1
    return _join(_element("div", _join(*found), style="multiples"), _whole(f"All {len(found)}") if whole else "")


def _hint(*, zooms: bool, named: bool) -> Markup:
    """Return what a figure answers to; the style sheet shows what this device can do."""
    pointer = _element("span", text_html(f"Hover for numbers{_ZOOMS if zooms else ''}."), style="by-pointer")
    touch = _element("span", text_html("Tap for numbers."), style="by-touch")
    click, tap = (
        _element("span", text_html(word), style=f"by-{by}") for word, by in (("click", "pointer"), ("tap", "touch"))
    )
    legend = Markup(" A {}{} on a name in the legend singles it out.").format(click, tap) if named else ""
    text = Markup("{}{}\nOn a keyboard, Tab to the figure, then arrow keys.{} The menu at the corner saves the figure.")
    return _element("span", text.format(pointer, touch, legend), style="hint")


_HEAD = Markup(
    '<defs><marker id="{}" viewBox="0 0 8 8" refX="4" refY="4" markerWidth="8" markerHeight="8"'
    ' markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" class="dag-head"/></marker></defs>'
)


def _vector(drawing: VectorDrawing) -> Markup:
    shapes = (_attributed(shape.tag, text_html(shape.text), shape.attributes) for shape in drawing.shapes)
    label: dict[str, str | float] = {"class": "dag", "viewBox": f"0 0 {drawing.width_px} {drawing.height_px}"}
    label |= {"width": drawing.width_px, "height": drawing.height_px, "role": "img", "aria-label": drawing.description}
    inner = _attributed("svg", _join(_HEAD.format(drawing.arrow), *shapes), label)
    return _element("div", inner, style=f"dag-scroll {drawing.style}")


def _attributed(tag: str, inner: Markup, attributes: Mapping[str, str | float]) -> Markup:
    written = Markup().join(Markup(' {}="{}"').format(name, _value(value)) for name, value in attributes.items())
    return Markup("<{0}{1}>{2}</{0}>").format(tag, written, inner)
