"""A report as one HTML page that needs no other file: sections with paragraphs, tables and plots, in one style."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape

from topicpolicies_server.escaping import printable

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:64rem;padding:0 1rem;color:#222;background:#fff}
h1{font-size:1.6rem}h2{margin-top:2.5rem;border-bottom:1px solid #ccc}
svg{display:block;width:100%;height:auto;margin:1rem 0}svg text{font-family:system-ui,sans-serif!important}
table{border-collapse:collapse;margin:1rem 0}th,td{padding:.2rem .8rem .2rem 0;text-align:left;border-bottom:1px solid #e4e4e4}
th{vertical-align:bottom}td{vertical-align:top;overflow-wrap:anywhere}time{white-space:nowrap}
.number{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
i{display:inline-block;width:.75rem;height:.75rem;margin-right:.4rem;print-color-adjust:exact;-webkit-print-color-adjust:exact}
@media print{body{margin:0;max-width:none;font-size:10pt}svg,tr{break-inside:avoid}h2{break-after:avoid}}
"""


class Html(str):
    """Text that is HTML already. All other text is escaped when it becomes part of a page."""

    __slots__ = ()


def page(title: str, *parts: Html) -> str:
    """Returns the whole page."""
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{_html(title)}</title><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body><h1>{_html(title)}</h1>{"".join(parts)}</body></html>\n'


def section(title: str, *parts: Html) -> Html:
    """Returns parts under a heading; they may be plots. If all of them are empty, ``None.`` is written there."""
    return Html(f"<section><h2>{_html(title)}</h2>{''.join(parts) or paragraph('None.')}</section>")


def paragraph(text: str) -> Html:
    """Returns a paragraph."""
    return Html(f"<p>{_html(text)}</p>")


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Html:
    """Returns a table; nothing if it has no rows.

    Numbers are aligned at the right, with two decimals if they are floating-point ones. Times are shown to the second.
    """
    head = "".join(f"<th{_kind(cell)}>{_html(name)}</th>" for row in rows[:1] for name, cell in zip(columns, row, strict=True))
    body = "".join(f"<tr>{''.join(f'<td{_kind(cell)}>{_html(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return Html(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else "")


def marked(name: str, colour: str) -> Html:
    """Returns a name behind a mark in its colour."""
    return Html(f'<i style="background:{colour}"></i>{_html(name)}')


def listed(texts: Iterable[str]) -> Html:
    """Returns texts below each other."""
    return Html("<br>".join(map(_html, texts)))


def _kind(cell: object) -> str:
    return ' class="number"' if isinstance(cell, int | float) else ""


def _html(value: object) -> str:
    if isinstance(value, Html):
        return value
    if isinstance(value, datetime):
        return f"<time>{value:%Y-%m-%d %H:%M:%S}</time>"
    if isinstance(value, int | float):
        return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
    return escape(printable(str(value)))
