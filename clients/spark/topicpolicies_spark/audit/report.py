"""A report of a period of an archive: who changed what, when and where, as one HTML page with plots and tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from ..page import Html, listed, marked, page, paragraph, section, table
from ..plots import OTHERS, PALETTE, Bar, bars, over_time
from .questions import frequently_changed, made, reverted_fields

_TOP = 12
_MOST_ROWS = 50
_MOST_NAMES = 8
"""Of the actors of one row."""
_MOST_COLUMNS = 150
"""Of the plot over time."""
_WIDTHS = {
    1: "second", 10: "10 seconds", 60: "minute", 300: "5 minutes", 900: "15 minutes", 3_600: "hour", 10_800: "3 hours", 21_600: "6 hours",
    86_400: "day", 604_800: "week", 31_536_000: "365 days", 3_153_600_000: "36,500 days",
}  # fmt: skip
"""The widths of its columns, in seconds, as its title names them."""
_LATEST = 221_845_392_000
"""The year 9000, in seconds since 1970: Python's times, which Spark's exceed, have room for a column behind it."""


def report(changes: DataFrame, period: str, churn_at_least: int = 10, reverts_at_least: int = 2) -> str:
    """Returns the report as HTML.

    An actor has the same colour everywhere in it. However many changes there are, only so many rows of results reach the driver.

    Args:
        changes: the changes of an archive, of the period only.
        period: the period, for the title.
        churn_at_least: how many changes a topic must have to be named.
        reverts_at_least: how many times changes of a field must have been undone for the field to be named.
    """
    title = f"Topic policies: {period}"
    seconds = F.least(F.greatest(F.unix_seconds("time"), F.lit(0)), F.lit(_LATEST))
    rows = made(changes).withColumn("time", seconds)  # not cached: each question reads only the columns that it needs
    counts = (F.count("*").alias("changes"), F.min("time").alias("first"), F.max("time").alias("last"))
    gaps = _gaps(changes)
    (known,) = rows.agg(*counts, F.count_distinct("who").alias("actors")).collect()
    if not known.changes:
        return page(title, paragraph("No changes."), *gaps)
    actors = _first(rows.groupBy("who").agg(*counts).orderBy(F.col("changes").desc(), "who"))
    legend = [(row.who, colour) for row, colour in zip(actors, PALETTE, strict=False)]
    colours = dict(legend)
    # An actor's place in the legend; -1, its last entry, for all actors without a colour of their own.
    numbered = rows.withColumn("number", F.array_position(F.lit(list(colours)), F.col("who")) - 1)
    if known.actors > len(legend):
        legend.append((f"{known.actors - len(legend):,} others", OTHERS))
    frequent = _first(frequently_changed(rows, churn_at_least))
    reverted = _first(reverted_fields(rows, reverts_at_least).withColumn("actors", F.slice("actors", 1, _MOST_NAMES + 1)))
    by_field = numbered.withColumn("field", F.explode("fields"))
    return page(
        title,
        paragraph(f"{known.changes:,} changes by {known.actors:,} actors. Times are UTC."),
        *gaps,
        section("When", _over_time(numbered, known.first, known.last, legend)),
        section("Who", *_table(("who", "changes", "first", "last"), actors, colours)),
        section("What", _bars("Changes by field and actor", by_field, "field", legend)),
        section("Where", _bars("Changes by namespace and actor", numbered, "namespace", legend)),
        section(
            f"Topics that changed {churn_at_least} times or more",
            *_table(("topic", "scope", "changes", "actors", "last"), frequent, colours),
        ),
        section(
            "Fields that are changed back",
            *_table(("topic", "scope", "field", "times_undone", "actors", "last"), reverted, colours),
        ),
    )


def _gaps(changes: DataFrame) -> list[Html]:
    rows = _first(changes.filter("action = 'GAP'").select("namespace", "problem").distinct().orderBy("namespace", "problem"))
    return [section("What is not known", *_table(("namespace", "problem"), rows, {}))] if rows else []


def _first(found: DataFrame) -> list[Row]:
    return found.limit(_MOST_ROWS + 1).collect()


def _over_time(numbered: DataFrame, first: int, last: int, legend: Sequence[tuple[str, str]]) -> Html:
    # Columns begin at round times, so that there may be one more.
    width, name = next(each for each in _WIDTHS.items() if (last - first) / each[0] <= _MOST_COLUMNS - 1)
    periods = range(first // width, last // width + 1)
    counts = _counts(numbered, F.floor(F.col("time") / width), legend)
    edges = [_moment(each * width) for each in (*periods, periods.stop)]
    return over_time(f"Changes per {name}, by actor", edges, [counts[each] for each in periods], legend)


def _bars(title: str, numbered: DataFrame, column: str, legend: Sequence[tuple[str, str]]) -> Html:
    """Returns bars of the most frequent values of a column, each divided by actor."""
    most = [row[0] for row in numbered.groupBy(column).count().orderBy(F.col("count").desc(), column).limit(_TOP).collect()]
    counts = _counts(numbered.filter(F.col(column).isin(most)), F.col(column), legend)
    colours = [colour for _, colour in legend]
    rows = [Bar(value, list(zip(counts[value], colours, strict=True)), f"{sum(counts[value]):,}") for value in most]
    return bars(title, rows, legend)


def _counts(numbered: DataFrame, key: Column, legend: Sequence[tuple[str, str]]) -> Mapping[Any, list[int]]:
    """Returns the number of changes by a key, each for all entries of the legend."""
    counts: defaultdict[Any, list[int]] = defaultdict(lambda: [0] * len(legend))
    for row in numbered.groupBy(key.alias("key"), "number").count().collect():
        counts[row.key][row.number] = row["count"]
    return counts


def _table(columns: Sequence[str], rows: Sequence[Row], colours: Mapping[str, str]) -> list[Html]:
    """Returns a table of the first rows, and says if there are more."""
    cells = [[_cell(name, row[name], colours) for name in columns] for row in rows[:_MOST_ROWS]]
    more = [paragraph(f"There are more than these {_MOST_ROWS}.")] if len(rows) > _MOST_ROWS else []
    return [table([name.replace("_", " ") for name in columns], cells), *more]


def _cell(name: str, value: Any, colours: Mapping[str, str]) -> object:
    if name == "who":
        return marked(value, colours.get(value, OTHERS))
    if isinstance(value, list):
        more = ["and more"] if len(value) > _MOST_NAMES else []
        return listed([marked(each, colours.get(each, OTHERS)) for each in value[:_MOST_NAMES]] + more)
    return _moment(value) if name in ("first", "last") else value


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
