"""A report of a period of an archive: one self-contained HTML page with plots and tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from html import escape

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from ..plots import Bar, Line, bars, lines
from .attribution import changed
from .churn import frequently_changed, reverted_fields

_TOP = 12
_ACTORS = 5
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#222;background:#fff}
h1{font-size:1.6rem}h2{margin-top:2.5rem;border-bottom:1px solid #ccc}table{border-collapse:collapse}
th,td{padding:.2rem .8rem;text-align:left;border-bottom:1px solid #e4e4e4}svg{width:100%;height:auto;font-size:12px}
.grid{stroke:#e2e2e2}.legend span{margin-right:1.2rem}.legend i{display:inline-block;width:.8rem;height:.8rem;margin-right:.3rem}
"""


def report(changes: DataFrame, period: str, churn_at_least: int = 10, reverts_at_least: int = 2) -> str:
    """Returns the report as HTML.

    Args:
        changes: the changes of an archive, of the period only.
        period: the period, for the title.
        churn_at_least: how many changes a topic must have to be named.
        reverts_at_least: how many times changes of a field must have been undone for the field to be named.
    """
    made = changed(changes).select("published", "who", "namespace", "topic", "scope", "fields").cache()
    try:
        count = made.count()
        hours = made.groupBy(F.date_trunc("hour", "published").alias("hour"), "who").count().orderBy("hour").collect()
        actors = _counts(made.groupBy("who"))
        fields = _counts(made.select(F.explode("fields").alias("field")).groupBy("field"))
        namespaces = _counts(made.groupBy("namespace"))
    finally:
        made.unpersist()
    parts = [
        f"<p>{count:,} changes by {len(actors):,} actors.</p>",
        "<h2>Changes by hour</h2>",
        lines(_by_hour(hours, [row[0] for row in actors[:_ACTORS]]), "hours from the first", "changes per hour"),
        "<h2>Who</h2>",
        _bars(actors, "changes by actor"),
        "<h2>What</h2>",
        _bars(fields, "changes by field"),
        "<h2>Where</h2>",
        _bars(namespaces, "changes by namespace"),
        f"<h2>Topics that changed {churn_at_least} times or more</h2>",
        _table(frequently_changed(changes, churn_at_least).limit(50).collect(), ("topic", "scope", "changes", "actors", "last")),
        "<h2>Fields that are changed back</h2>",
        _table(
            reverted_fields(changes, reverts_at_least).limit(50).collect(), ("topic", "scope", "field", "times_undone", "actors", "last")
        ),
    ]
    title = f"Topic policies: {period}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style></head>'
        f"<body><h1>{escape(title)}</h1>{''.join(parts)}</body></html>\n"
    )


def _counts(grouped: object) -> list[Row]:
    counted: DataFrame = grouped.count()  # type: ignore[attr-defined]
    return counted.orderBy(F.col("count").desc(), counted.columns[0]).collect()


def _bars(counts: Sequence[Row], title: str) -> str:
    return bars([Bar(str(row[0]), row["count"], f"{row['count']:,}") for row in counts[:_TOP]], title) if counts else "<p>None.</p>"


def _by_hour(rows: Sequence[Row], named: Sequence[str]) -> list[Line]:
    if not rows:
        return []
    first: datetime = rows[0]["hour"]
    curves: defaultdict[str, defaultdict[float, float]] = defaultdict(lambda: defaultdict(float))
    last = (rows[-1]["hour"] - first).total_seconds() / 3600
    for row in rows:
        name = row["who"] if row["who"] in named else "others"
        curves[name][(row["hour"] - first).total_seconds() / 3600] += row["count"]
    hours = [float(hour) for hour in range(int(last) + 1)]
    return [Line(name, [(hour, counts.get(hour, 0.0)) for hour in hours]) for name, counts in sorted(curves.items())]


def _table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    if not rows:
        return "<p>None.</p>"
    head = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(_text(row[name]))}</td>' for name in columns)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
