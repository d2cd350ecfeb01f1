"""Spark judges the records: all promises hold, or the proof shows where they were broken.

Every promise is about one policy key, or about the bookmarks of a watch, which stand for all keys. So records are distributed to shards by
topic, the bookmarks of watches to every shard, and the validators that the simulation uses too judge each shard separately.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from tests.validators import ALONE, VALIDATORS
from tests.validators.timeline import Timeline

from .histories import history_of
from .records import SCHEMA, rows

_CALLS = ("update", "delete", "read")
_WATCHES = ("watch", "change", "bookmark", "status")
_FROM_HISTORY = ("head",)
_EXAMPLES = 5
"""How many examples of each promise and shard are kept; the others are only counted."""
_VERDICTS = pa.schema(
    [
        pa.field("promise", pa.string()),
        pa.field("about", pa.string()),
        pa.field("broken", pa.int64()),
        pa.field("examples", pa.list_(pa.string())),
        pa.field("calls", pa.int64()),
        pa.field("deliveries", pa.int64()),
        pa.field("keys", pa.int64()),
    ]
)


class Verdict(NamedTuple):
    """The result for one promise."""

    promise: str
    """The validator's name."""
    about: str
    broken: int
    """How often the promise was broken; several shards may count the same breach of a bookmark."""
    examples: list[str]


class Proof(NamedTuple):
    """The results for all promises, and how much was judged."""

    verdicts: list[Verdict]
    calls: int
    deliveries: int
    keys: int
    """Policy keys that occur in the log."""

    @property
    def holds(self) -> bool:
        """Whether no promise was broken, and at least one was judged."""
        return self.calls > 0 and self.keys > 0 and not any(verdict.broken for verdict in self.verdicts)


def prove(records: DataFrame, shards: int, parts: int = 1, skew: float = 0.0) -> Proof:
    """Judges all promises.

    Args:
        records: all records of a sidecar.
        shards: the number of parts that are judged separately; about as many as there are cores.
        parts: into how many parts the promises of each shard are divided, which are judged separately; for a load of one topic.
        skew: how many seconds the clocks of the workers' machines may be apart.
    """
    everywhere = F.sequence(F.lit(0), F.lit(shards - 1))
    shard = F.when(F.col("topic").isNull(), everywhere).otherwise(F.array(F.pmod(F.hash("topic"), F.lit(shards))))
    dealt = records.filter(F.col("kind").isin(*_CALLS, *_WATCHES, *_FROM_HISTORY)).select("*", F.explode(shard).alias("shard"))
    divided = dealt.withColumn("part", F.explode(F.sequence(F.lit(0), F.lit(parts - 1))))

    def judge(table: pa.Table) -> pa.Table:
        return judge_shard(table, skew, table["part"][0].as_py(), parts)

    judged = divided.groupBy("shard", "part").applyInArrow(judge, _ddl()).collect()
    verdicts = [_combined(promise, [row for row in judged if row.promise == promise.__name__]) for promise in (*VALIDATORS, *ALONE)]
    one_each = [row for row in judged if row.promise == VALIDATORS[0].__name__]
    return Proof(verdicts, *(sum(row[name] for row in one_each) for name in ("calls", "deliveries", "keys")))


def judge_shard(table: pa.Table, skew: float = 0.0, part: int = 0, parts: int = 1) -> pa.Table:
    """Judges every so many promise of one shard, from ``part`` on. Returns a row for each of them."""
    records = list(rows(table.select(SCHEMA.names)))
    history = history_of(records, skew)
    timeline = Timeline(history)
    found = []
    for validate in (*VALIDATORS, *ALONE)[part::parts]:
        broken = [str(error) for error in validate(history, timeline)]
        found.append((validate.__name__, _about(validate), len(broken), [text[:2_000] for text in broken[:_EXAMPLES]]))
    calls = sum(record.kind in _CALLS for record in records)
    deliveries = sum(record.kind == "change" for record in records)
    keys = len(timeline.heads)
    columns = zip(*((*each, calls, deliveries, keys) for each in found), strict=True)
    return pa.Table.from_arrays([pa.array(column, field.type) for column, field in zip(columns, _VERDICTS, strict=True)], schema=_VERDICTS)


def _about(validate: Callable[..., object]) -> str:
    return (validate.__doc__ or "").partition("\n")[0]


def _combined(promise: Callable[..., object], judged: list[pa.Table]) -> Verdict:
    examples = [example for row in judged for example in row.examples]
    return Verdict(promise.__name__, _about(promise), sum(row.broken for row in judged), list(dict.fromkeys(examples))[:_EXAMPLES])


def _ddl() -> str:
    return "promise string, about string, broken bigint, examples array<string>, calls bigint, deliveries bigint, keys bigint"
