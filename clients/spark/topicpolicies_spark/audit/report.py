"""A report of a period of an archive: one self-contained HTML page with plots and tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from html import escape

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from ..plots import Bar, Line, bars, lines
from .churn import frequently_changed, reverted_fields
from .state import KEY

_TOP = 12
_ACTORS = 5
_MOST_ROWS = 50
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
"""The latest time that Python can show, in microseconds since 1970: Spark has later ones."""
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#222;background:#fff}
h1{font-size:1.6rem}h2{margin-top:2.5rem;border-bottom:1px solid #ccc}table{border-collapse:collapse}
th,td{padding:.2rem .8rem;text-align:left;border-bottom:1px solid #e4e4e4}svg{width:100%;height:auto;font-size:12px}
.grid{stroke:#e2e2e2}.legend span{margin-right:1.2rem}.legend i{display:inline-block;width:.8rem;height:.8rem;margin-right:.3rem}
"""


def report(rows: DataFrame, period: str, churn_at_least: int = 10, reverts_at_least: int = 2) -> str:
    """Returns the report as HTML; its times are UTC.

    Args:
        rows: the changes of documents, as ``changes.made`` returns them, of the period only.
        period: the period, for the title.
        churn_at_least: how many changes a topic must have to be named.
        reverts_at_least: how many times changes of a field must have been undone for the field to be named.
    """
    made = rows.select(*KEY, "position", "time", "who", "fields", "policies").cache()
    try:
        count = made.count()
        hour = F.floor(F.unix_seconds("time") / 3600).alias("hour")
        hours = made.groupBy(hour, "who").count().orderBy("hour").collect()
        actors = _counts(made.groupBy("who"))
        fields = _counts(made.select(F.explode("fields").alias("field")).groupBy("field"))
        namespaces = _counts(made.groupBy("namespace"))
        frequent = _rows(frequently_changed(made, churn_at_least))
        reverted = _rows(reverted_fields(made, reverts_at_least))
    finally:
        made.unpersist()
    parts = [
        f"<p>{count:,} changes by {len(actors):,} actors.</p>",
        "<h2>Changes by hour</h2>",
        lines(_by_hour(hours, [row[0] for row in actors[:_ACTORS]]), "hours from the first", "changes per hour") or "<p>None.</p>",
        "<h2>Who</h2>",
        _bars(actors, "changes by actor"),
        "<h2>What</h2>",
        _bars(fields, "changes by field"),
        "<h2>Where</h2>",
        _bars(namespaces, "changes by namespace"),
        f"<h2>Topics that changed {churn_at_least} times or more</h2>",
        _table(frequent, ("topic", "scope", "changes", "actors", "last")),
        "<h2>Fields that are changed back</h2>",
        _table(reverted, ("topic", "scope", "field", "times_undone", "actors", "last")),
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


def _rows(found: DataFrame) -> list[Row]:
    """Returns the first rows, with ``last`` in microseconds since 1970."""
    return found.withColumn("last", F.unix_micros("last")).limit(_MOST_ROWS).collect()


def _by_hour(rows: Sequence[Row], named: Sequence[str]) -> list[Line]:
    if not rows:
        return []
    first, last = rows[0]["hour"], rows[-1]["hour"]
    curves: defaultdict[str, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        name = row["who"] if row["who"] in named else "others"
        curves[name][row["hour"] - first] += row["count"]
    return [Line(name, _points(counts, last - first)) for name, counts in sorted(curves.items())]


def _points(counts: Mapping[int, int], last: int) -> list[tuple[float, float]]:
    """Returns the points of a curve: the hours with changes, the hours beside them, and both ends. Between these the curve is zero."""
    hours = {0, last}.union(*({hour - 1, hour, hour + 1} for hour in counts))
    return [(float(hour), float(counts.get(hour, 0))) for hour in sorted(hours) if 0 <= hour <= last]


def _table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    if not rows:
        return "<p>None.</p>"
    head = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(_text(name, row[name]))}</td>' for name in columns)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _text(name: str, value: object) -> str:
    if name == "last" and isinstance(value, int):
        return f"{_EPOCH + timedelta(microseconds=min(value, _LATEST)):%Y-%m-%d %H:%M:%S} UTC"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
