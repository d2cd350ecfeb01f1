"""A report as one HTML page that needs no other file: sections with paragraphs, tables and plots, in one style."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape

from topicpolicies_server.escaping import printable

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:64rem;padding:0 1rem;color:#222;background:#fff}
h1{font-size:1.6rem}h2{margin-top:2.5rem;border-bottom:1px solid #ccc}
table{border-collapse:collapse;margin:1rem 0}th,td{padding:.2rem .8rem .2rem 0;text-align:left;border-bottom:1px solid #e4e4e4}
th{vertical-align:bottom}td{vertical-align:top;overflow-wrap:anywhere}
.number{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}time{white-space:nowrap}
figure{margin:1rem 0}svg{width:100%;height:auto}svg text{font-family:system-ui,sans-serif!important}
i{display:inline-block;width:.75rem;height:.75rem;margin-right:.4rem;print-color-adjust:exact;-webkit-print-color-adjust:exact}
.good{color:#1d7a3e}.bad{color:#b3261e}pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f6f6f6;padding:.6rem;font-size:12px}
@media print{body{margin:0;max-width:none;font-size:10pt}figure,tr{break-inside:avoid}h2{break-after:avoid}}
"""


class Html(str):
    """Text that is HTML already. All other text is escaped when it becomes part of a page."""

    __slots__ = ()


def page(title: str, *parts: Html) -> str:
    """Returns the whole page."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{_html(title)}</title><style>{_STYLE}</style></head><body><h1>{_html(title)}</h1>{''.join(parts)}</body></html>\n"
    )


def section(title: str, *parts: Html) -> Html:
    """Returns parts under a heading."""
    return Html(f"<section><h2>{_html(title)}</h2>{''.join(parts)}</section>")


def paragraph(text: str) -> Html:
    """Returns a paragraph."""
    return Html(f"<p>{_html(text)}</p>")


def plot(svg: str) -> Html:
    """Returns a plot of ``plots``, or ``None.`` if there was nothing to draw."""
    return Html(f"<figure>{svg}</figure>") if svg else paragraph("None.")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """Returns a table, or ``None.`` if it has no rows.

    Numbers are aligned at the right, with two decimals if they are floating-point ones. Times are shown to the second.
    """
    listed = list(rows)
    if not listed:
        return paragraph("None.")
    head = "".join(f"<th{_number(cell)}>{_html(name)}</th>" for name, cell in zip(columns, listed[0], strict=True))
    body = "".join(f"<tr>{''.join(f'<td{_number(cell)}>{_html(cell)}</td>' for cell in row)}</tr>" for row in listed)
    return Html(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


def marked(name: str, colour: str) -> Html:
    """Returns a name behind a mark in its colour."""
    return Html(f'<i style="background:{colour}"></i>{_html(name)}')


def verdict(text: str, *, good: bool) -> Html:
    """Returns a text in the colour of what is good or bad."""
    kind = "good" if good else "bad"
    return Html(f'<span class="{kind}">{_html(text)}</span>')


def details(summary: str, *parts: Html, shown: bool) -> Html:
    """Returns parts that a reader can show and hide."""
    return Html(f"<details{' open' if shown else ''}><summary>{_html(summary)}</summary>{''.join(parts)}</details>")


def example(text: str) -> Html:
    """Returns a text with its lines as they are."""
    lines = "\n".join(_html(line) for line in text.splitlines())
    return Html(f"<pre>{lines}</pre>")


def _number(cell: object) -> str:
    return ' class="number"' if isinstance(cell, int | float) else ""


def _html(value: object) -> str:
    if isinstance(value, Html):
        return value
    if isinstance(value, datetime):
        return f"<time>{value:%Y-%m-%d %H:%M:%S}</time>"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else escape(printable(str(value)))
