"""A report of a period of an archive: who changed what, when and where, as one HTML page with plots and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from ..page import Html, marked, page, paragraph, plot, section, table
from ..plots import OTHERS, PALETTE, Bar, Layer, bars, over_time
from .churn import frequently_changed, reverted_fields
from .state import KEY

_TOP = 12
_MOST_ROWS = 50
_MOST_NAMES = 8
"""Of the actors of one row."""
_MOST_COLUMNS = 150
"""Of the plot over time."""
_DAY = 86_400
_WIDTHS = (1, 10, 60, 300, 900, 3_600, 3 * 3_600, 6 * 3_600, _DAY, 7 * _DAY)
"""The usual widths of its columns, in seconds."""
_UNITS = ((_DAY, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_END = datetime(9999, 12, 31, tzinfo=UTC)
_EARLIEST, _LATEST = ((each - _EPOCH) // timedelta(seconds=1) for each in (datetime(2, 1, 1, tzinfo=UTC), _END - timedelta(seconds=1)))
"""The times that can be shown, in seconds since 1970: Spark has earlier and later ones."""


def report(rows: DataFrame, period: str, churn_at_least: int = 10, reverts_at_least: int = 2) -> str:
    """Returns the report as HTML; its times are UTC.

    An actor has the same colour everywhere in it. However many changes there are, only so many rows of results reach the driver.

    Args:
        rows: the changes of documents, as ``changes.made`` returns them, of the period only.
        period: the period, for the title.
        churn_at_least: how many changes a topic must have to be named.
        reverts_at_least: how many times changes of a field must have been undone for the field to be named.
    """
    title = f"Topic policies: {period}"
    seconds = F.least(F.greatest(F.unix_seconds("time"), F.lit(_EARLIEST)), F.lit(_LATEST)).alias("time")
    made = rows.select(*KEY, "position", seconds, "who", "fields", "policies").cache()
    counts = (F.count("*").alias("changes"), F.min("time").alias("first"), F.max("time").alias("last"))
    try:
        (known,) = made.agg(*counts, F.count_distinct("who").alias("actors")).collect()
        if not known.changes:
            return page(title, paragraph("No changes."))
        actors = _first(made.groupBy("who").agg(*counts).orderBy(F.col("changes").desc(), "who"))
        legend = [(row.who, colour) for row, colour in zip(actors, PALETTE, strict=False)]
        colours = dict(legend)
        # An actor's place in the legend; -1, its last entry, for all actors without a colour of their own.
        numbered = made.withColumn("number", F.array_position(F.lit(list(colours)), F.col("who")) - 1)
        if known.actors > len(legend):
            legend.append((f"{known.actors - len(legend):,} others", OTHERS))
        reverted = reverted_fields(made, reverts_at_least).withColumn("several", F.size("actors"))
        reverted = reverted.withColumn("actors", F.slice("actors", 1, _MOST_NAMES))
        what = _bars("Changes by field and actor", numbered.withColumn("field", F.explode("fields")), "field", legend)
        where = _bars("Changes by namespace and actor", numbered, "namespace", legend)
        return page(
            title,
            paragraph(f"{known.changes:,} changes by {known.actors:,} actors."),
            section("When", plot(_over_time(numbered, known.first, known.last, legend))),
            section("Who", *_actors(actors, colours)),
            section("What", plot(what)),
            section("Where", plot(where)),
            section(f"Topics that changed {churn_at_least} times or more", *_frequent(_first(frequently_changed(made, churn_at_least)))),
            section("Fields that are changed back", *_reverted(_first(reverted), colours)),
        )
    finally:
        made.unpersist()


def _over_time(numbered: DataFrame, first: int, last: int, legend: Sequence[tuple[str, str]]) -> str:
    width = _width(last - first)
    begin, end = first // width, last // width + 1
    layers = [Layer(name, colour, [0] * (end - begin)) for name, colour in legend]
    for row in numbered.groupBy(F.floor(F.col("time") / width).alias("column"), "number").count().collect():
        layers[row.number].counts[row.column - begin] = row["count"]
    edges = [_moment(min(each * width, _LATEST + 1)) for each in range(begin, end + 1)]
    size, unit = next((width // size, unit) for size, unit in _UNITS if width >= size)
    return over_time(f"Changes per {unit if size == 1 else f'{size:,} {unit}s'}, by actor", edges, layers)


def _width(seconds: int) -> int:
    """Returns the width of the columns of a period, in seconds: the smallest one with which there are at most ``_MOST_COLUMNS``."""
    least = -(-seconds // (_MOST_COLUMNS - 1))  # columns begin at round times, so that there may be one more
    return next((each for each in _WIDTHS if each >= least), -(-least // _DAY) * _DAY)


def _bars(title: str, numbered: DataFrame, column: str, legend: Sequence[tuple[str, str]]) -> str:
    """Returns bars of the most frequent values of a column, each divided by actor."""
    most = numbered.groupBy(column).count().orderBy(F.col("count").desc(), column).limit(_TOP).collect()
    lengths = {row[0]: [0] * len(legend) for row in most}
    for row in numbered.filter(F.col(column).isin(list(lengths))).groupBy(column, "number").count().collect():
        lengths[row[0]][row.number] = row["count"]
    colours = [colour for _, colour in legend]
    rows = [Bar(row[0], list(zip(lengths[row[0]], colours, strict=True)), f"{row['count']:,}") for row in most]
    return bars(title, rows, legend)


def _first(found: DataFrame) -> list[Row]:
    return found.limit(_MOST_ROWS + 1).collect()


def _actors(rows: Sequence[Row], colours: Mapping[str, str]) -> list[Html]:
    cells = [(_named(row.who, colours), row.changes, _moment(row.first), _moment(row.last)) for row in rows]
    return _table(("actor", "changes", "first (UTC)", "last (UTC)"), cells)


def _frequent(rows: Sequence[Row]) -> list[Html]:
    cells = [(row.topic, row.scope, row.changes, row.actors, _moment(row.last)) for row in rows]
    return _table(("topic", "scope", "changes", "actors", "last (UTC)"), cells)


def _reverted(rows: Sequence[Row], colours: Mapping[str, str]) -> list[Html]:
    cells = [(row.topic, row.scope, row.field, row.times_undone, _several(row, colours), _moment(row.last)) for row in rows]
    return _table(("topic", "scope", "field", "times undone", "actors", "last (UTC)"), cells)


def _several(row: Row, colours: Mapping[str, str]) -> Html:
    more = row.several - len(row.actors)
    return Html("<br>".join([_named(actor, colours) for actor in row.actors] + ([f"and {more:,} more"] if more else [])))


def _named(actor: str, colours: Mapping[str, str]) -> Html:
    return marked(actor, colours.get(actor, OTHERS))


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[Html]:
    """Returns a table of the first rows, and says if there are more."""
    more = [paragraph(f"There are more than these {_MOST_ROWS}.")] if len(rows) > _MOST_ROWS else []
    return [table(columns, rows[:_MOST_ROWS]), *more]


def _moment(seconds: int) -> datetime:
    return _EPOCH + timedelta(seconds=seconds)
