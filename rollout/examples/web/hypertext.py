"""Markup for the shipped sites, written so that nothing comes out unescaped.

`el("a", "Tea & cake", href="/tea")` is an element. A child or an attribute that is plain text is escaped; only what
`el` itself made, of the type `Html`, goes through as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TypeAlias
from urllib.parse import urlencode

VOID = frozenset({"input", "img", "br", "hr", "meta", "link"})


class Html(str):
    """Markup that is sent as it is. Made by `el` and `join` alone."""

    __slots__ = ()


Child: TypeAlias = "str | int | Iterable[Child] | None"
Attribute = str | int | bool | None


def el(tag: str, /, *children: Child, **attributes: Attribute) -> Html:
    """An element. `class_` becomes `class`, `data_confirm` `data-confirm`; True is a bare attribute, None is none."""
    written = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in VOID:
        return Html(f"<{tag}{written}>")
    return Html(f"<{tag}{written}>{join(children)}</{tag}>")


def join(children: Child) -> Html:
    """Children one after the other, without an element around them."""
    if children is None:
        return Html("")
    if isinstance(children, Html):
        return children
    if isinstance(children, (str, int)):
        return Html(escape(str(children)))
    return Html("".join(join(child) for child in children))


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    plain = name.rstrip("_").replace("_", "-")
    return f" {plain}" if value is True else f' {plain}="{escape(str(value))}"'


# ---- what forms are made of ------------------------------------------------------------------------------------------

Errors = Mapping[str, str]
"""What is wrong with a form, by the name of the field."""


def text_field(
    name: str,
    label: str,
    value: str = "",
    errors: Errors | None = None,
    *,
    kind: str = "text",
    hint: str = "",
    **attributes: Attribute,
) -> Html:
    """A labelled field of one line, with what is wrong with it below."""
    control = el("input", type=kind, id=name, name=name, value=value, **attributes)
    return _labelled(name, label, control, errors, hint)


def text_area(name: str, label: str, value: str = "", errors: Errors | None = None, *, rows: int = 4) -> Html:
    """A labelled field of several lines."""
    # A browser drops the first newline of a text area.
    return _labelled(name, label, el("textarea", "\n" + value, id=name, name=name, rows=rows), errors, "")


def choice(
    name: str,
    label: str,
    options: Sequence[tuple[str, str]],
    chosen: str = "",
    errors: Errors | None = None,
    *,
    submits: bool = False,
) -> Html:
    """A labelled list to choose from: pairs of value and label. `submits` sends its form as soon as one is chosen."""
    control = el(
        "select",
        [el("option", text, value=value, selected=value == chosen) for value, text in options],
        id=name,
        name=name,
        data_submits=submits,
    )
    return _labelled(name, label, control, errors, "")


def tick(name: str, label: Child, is_ticked: bool = False, *, value: str = "yes", kind: str = "checkbox") -> Html:
    """A box to tick (or a radio button), with its label behind it."""
    return el("label", el("input", type=kind, name=name, value=value, checked=is_ticked), " ", label, class_="tick")


def post(action: str, *children: Child, confirm: str | None = None, class_: str | None = None) -> Html:
    """A form that changes something. What is wrong with its fields the site says itself, on the page."""
    return el("form", *children, method="post", action=action, novalidate=True, data_confirm=confirm, class_=class_)


def button(label: Child, *, kind: str = "", **attributes: Attribute) -> Html:
    """A button that sends its form. `kind`: `quiet` or `danger`."""
    return el("button", label, type="submit", class_=f"button {kind}".strip(), **attributes)


def faults(errors: Errors) -> Html:
    """The box above a form that was sent back."""
    if not errors:
        return Html("")
    return el(
        "div",
        el("strong", "Please check your entries:"),
        el("ul", [el("li", text) for text in errors.values()]),
        class_="notice bad",
        role="alert",
    )


def table(head: Sequence[Child], rows: Iterable[Sequence[Child]], *, sortable: bool = False) -> Html:
    """A table with a row of headings. `sortable`: a click on a heading sorts by it."""
    headings = [
        el("th", el("button", text, type="button", class_="sort", data_sorts=True) if sortable else text, scope="col")
        for text in head
    ]
    return el(
        "table",
        el("thead", el("tr", headings)),
        el("tbody", [el("tr", [el("td", cell) for cell in row]) for row in rows]),
    )


def tabs(panels: Mapping[str, Html], opened: str | None = None) -> Html:
    """Panels under their names, one of them shown: the first, or the one named."""
    opened = opened or next(iter(panels))
    heads = [
        el(
            "button",
            name,
            type="button",
            role="tab",
            id=f"tab-{place}",
            aria_controls=f"panel-{place}",
            aria_selected="true" if name == opened else "false",
        )
        for place, name in enumerate(panels)
    ]
    bodies = [
        el("div", body, role="tabpanel", id=f"panel-{place}", aria_labelledby=f"tab-{place}", hidden=name != opened)
        for place, (name, body) in enumerate(panels.items())
    ]
    return el("div", el("div", heads, class_="tabs", role="tablist"), bodies)


def pager(page: int, pages: int, address: Mapping[str, str]) -> Html:
    """Links to the pages of a list. `address` has the path under `""` and the other parts of the query."""
    if pages < 2:
        return Html("")
    links: list[Child] = []
    if page > 1:
        links.append(el("a", "Previous", href=query(address, page=str(page - 1)), rel="prev"))
    for number in range(1, pages + 1):
        if number == page:
            links.append(el("span", number, aria_current="page"))
        else:
            links.append(el("a", number, href=query(address, page=str(number)), aria_label=f"Page {number}"))
    if page < pages:
        links.append(el("a", "Next", href=query(address, page=str(page + 1)), rel="next"))
    return el("nav", links, class_="pager", aria_label="Pages")


def query(address: Mapping[str, str], **changes: str) -> str:
    """An address with some parts of its query changed. Empty parts are left out."""
    parts = {**address, **changes}
    path = parts.pop("", "/")
    written = urlencode({name: value for name, value in parts.items() if value})
    return f"{path}?{written}" if written else path


def _labelled(name: str, label: str, control: Html, errors: Errors | None, hint: str) -> Html:
    fault = (errors or {}).get(name)
    return el(
        "div",
        el("label", label, for_=name),
        control,
        el("small", hint) if hint else None,
        el("p", fault, class_="fault") if fault else None,
        class_="field wrong" if fault else "field",
    )
