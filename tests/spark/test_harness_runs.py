"""The harness refuses what it can not do, has topics of its own in each run, and judges a hot key in parts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from bench.harness.__main__ import main
from bench.harness.proof import prove
from bench.harness.records import Record, batches, edit_text
from bench.harness.scenarios import SCENARIOS, Plan
from bench.harness.watching import AUDITOR
from tests.validators.documents import Edit

EDIT = edit_text(Edit(sets={"max_producer_per_topic": 1}))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--workers", "4"), "local[2] runs 2: --workers 2, or --master local[4]"),
        (("--operations", "0"), "0 is not a number from 1 on"),
        (("--target", "running"), "needs --address HOST:PORT and --namespace"),
    ],
)
def test_what_can_not_be_done_is_refused(options: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["hot-key", *options])
    assert ended.value.code == 2 and told in " ".join(capsys.readouterr().err.split())


def test_each_run_has_its_own_topics() -> None:
    assert len({Plan(scenario=SCENARIOS["hot-key"], workers=1, address="").topic(0) for _ in range(3)}) == 3


@pytest.mark.slow
def test_a_load_of_one_topic_is_judged_in_parts_with_the_same_result(spark: SparkSession) -> None:
    topic = "persistent://acme/orders/hot"
    records = [Record("watch", "load", 0, AUDITOR, 0.0, stream="a", every=True, end=9.0)]
    for number in range(1, 4):
        version, previous = str(number), str(number - 1) if number != 3 else "1"  # the third one loses the second
        facts: dict[str, Any] = {"topic": topic, "version": version, "previous": previous, "request_id": f"r{number}"}
        records.append(Record("update", "load", 0, "c", float(number), end=number + 0.5, outcome=1, edit=EDIT, **facts))
        records.append(Record("change", "load", 0, AUDITOR, number + 0.2, stream="a", sequence=number, **facts))
    found = spark.createDataFrame(pa.Table.from_batches(list(batches(records))))
    whole, divided = prove(found, 2), prove(found, 2, parts=2)
    assert whole == divided and not whole.holds and (whole.calls, whole.deliveries, whole.keys) == (3, 3, 1)
