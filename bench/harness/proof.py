"""Spark judges the records: all promises hold, or the proof shows where they were broken.

Every promise is about one policy key, or about the bookmarks of a watch, which stand for all keys. So records are distributed to shards by
topic, the bookmarks of watches to every shard, and the validators that the simulation uses too judge each shard separately. A load of one
topic has one shard, so there the promises are judged separately instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.pandas.types import from_arrow_schema

from tests.validators import ALONE, VALIDATORS, Validator
from tests.validators.timeline import Timeline

from .histories import history_of
from .records import CALLS, rows, schema_of

_WATCHES = ("watch", "change", "bookmark", "status")
_PROMISES = (*VALIDATORS, *ALONE)
_MOST_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for one promise."""

    promise: str
    """The validator's name."""
    about: str
    broken: int
    """How often the promise was broken; several shards may count the same breach of a bookmark."""
    example: str
    """Empty if it was not."""


@dataclass(frozen=True, slots=True)
class Proof:
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


class _Judged(NamedTuple):
    """What came of one promise in one shard."""

    promise: str
    broken: int
    example: str
    calls: int
    deliveries: int
    keys: int


_SCHEMA = schema_of(_Judged)


def prove(records: DataFrame, shards: int, parts: int = 1, skew: float = 0.0) -> Proof:
    """Judges all promises.

    Args:
        records: all records of a run.
        shards: the number of parts that are judged separately; about as many as there are cores.
        parts: into how many parts the promises of each shard are divided, which are judged separately; for a load of one topic.
        skew: how many seconds the clocks of the workers' machines may be apart.
    """
    everywhere = F.sequence(F.lit(0), F.lit(shards - 1))
    shard = F.when(F.col("topic") == "", everywhere).otherwise(F.array(F.pmod(F.hash("topic"), F.lit(shards))))
    dealt = records.filter(F.col("kind").isin(*CALLS, *_WATCHES)).select("*", F.explode(shard).alias("shard"))
    divided = dealt.withColumn("part", F.explode(F.sequence(F.lit(0), F.lit(parts - 1))))

    def judge(table: pa.Table) -> pa.Table:
        return _judge(table, _PROMISES[table["part"][0].as_py() :: parts], skew)

    judged = divided.groupBy("shard", "part").applyInArrow(judge, from_arrow_schema(_SCHEMA)).collect()
    verdicts = [_verdict(promise, [row for row in judged if row.promise == promise.__name__]) for promise in _PROMISES]
    one_each = [row for row in judged if row.promise == _PROMISES[0].__name__]
    return Proof(verdicts, *(sum(row[name] for row in one_each) for name in ("calls", "deliveries", "keys")))


def _judge(table: pa.Table, promises: Sequence[Validator], skew: float) -> pa.Table:
    """Judges some promises of one shard. Returns a row for each of them."""
    records = list(rows(table))
    history = history_of(records, skew)
    timeline = Timeline(history)
    calls, deliveries = (sum(record.kind in kinds for record in records) for kinds in (CALLS, ("change",)))
    judged = []
    for validate in promises:
        broken = [str(error) for error in validate(history, timeline)]
        example = broken[0][:_MOST_CHARACTERS] if broken else ""
        judged.append(_Judged(validate.__name__, len(broken), example, calls, deliveries, len(timeline.heads)))
    return pa.Table.from_pylist([each._asdict() for each in judged], schema=_SCHEMA)


def _verdict(promise: Validator, judged: list[Row]) -> Verdict:
    about = (promise.__doc__ or "").partition("\n")[0]
    return Verdict(promise.__name__, about, sum(row.broken for row in judged), max(row.example for row in judged))
