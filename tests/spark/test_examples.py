"""The SQL examples of docs/spark.md and the notebook docs/audit.ipynb run as they stand, and answer."""

from __future__ import annotations

import contextlib
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from topicpolicies_spark.audit import app as commands

from .changes import change, fill

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
_DOCS = Path(__file__).resolve().parents[2] / "docs"
PRODUCERS, SECONDS = "max_producer_per_topic", "message_ttl_in_seconds"
NOW = int(time.time()) * 1_000_000


@pytest.fixture
def archive(spark: SparkSession, tmp_path: Path) -> str:
    known: dict[str, Any] = {"actor": "ann", "standing": "UNAUTHENTICATED", "reason": "GH-7"}
    rows = [
        change(1, "a", {PRODUCERS: 1, SECONDS: 5}, **known),
        change(2, "a", {PRODUCERS: 2, SECONDS: 5}, [PRODUCERS], actor="bot"),
        change(3, "a", {PRODUCERS: 1, SECONDS: 6}, [PRODUCERS, SECONDS], **known),
        change(4, "a", {PRODUCERS: 2, SECONDS: 6}, [PRODUCERS], actor="bot"),
        change(5, "b", {"retention_policies": {"retention_time_in_minutes": 14_400}}),
    ]
    fill(tmp_path / "archive", [each._replace(time=NOW + each.time) for each in rows])
    return str(tmp_path / "archive")


def test_the_sql_of_the_page_answers(spark: SparkSession, archive: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "_spark", lambda: contextlib.nullcontext(spark))
    queries = re.findall(r"```sql\n(.*?)```", (_DOCS / "spark.md").read_text(encoding="utf-8"), re.DOTALL)
    queries += re.findall(r'^topicpolicies-audit sql +ARCHIVE "(.*)"$', (_DOCS / "spark.md").read_text(encoding="utf-8"), re.MULTILINE)
    answers = []
    for query in queries:
        result = CliRunner().invoke(commands.app, ["sql", archive, query, "-o", "json"])
        assert result.exit_code == 0, (query, result.output, result.exception)
        answers.append([json.loads(line) for line in result.output.splitlines()])
    most, before_and_after, retention, unauthenticated, brokers, by_actor = answers
    assert sorted((row["who"], row["changes"], row["topics"]) for row in most) == [("ann", 2, 1), ("bot", 2, 1)]
    assert [(row["who"], row.get("before"), row["after"]) for row in before_and_after] == [("ann", 5, 6), ("ann", None, 5)]
    assert [(row["topic"].rpartition("/")[2], row["days"]) for row in retention] == [("b", 10.0)]
    assert [row["changed"] for row in unauthenticated] == [[PRODUCERS, SECONDS], [PRODUCERS, SECONDS]]
    assert [(row["namespace"], row["documents"]) for row in brokers] == [("acme/orders", 1)]
    assert len(by_actor) == 3


def test_a_state_in_sql_is_as_of_a_time_and_a_wrong_query_is_told_in_a_sentence(
    spark: SparkSession, archive: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "_spark", lambda: contextlib.nullcontext(spark))
    as_of = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(NOW / 1e6 + 2))
    counted = CliRunner().invoke(commands.app, ["sql", archive, "SELECT topic, version FROM state", "--as-of", as_of, "-o", "json"])
    assert [json.loads(line)["version"] for line in counted.output.splitlines()] == ["v2"]
    monkeypatch.setattr("sys.argv", ["topicpolicies-audit", "sql", archive, "SELECT nothing FROM state"])
    with pytest.raises(SystemExit, match="1"):
        commands.main()
    told = capsys.readouterr().err
    assert told.startswith("Error: [UNRESOLVED_COLUMN") and told.count("\n") == 1


def test_the_notebook_runs_from_its_first_cell_to_its_last(spark: SparkSession, archive: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHIVE", archive)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names: dict[str, Any] = {}
    for cell in json.loads((_DOCS / "audit.ipynb").read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)  # noqa: S102 - the notebook is ours
    assert names["by_actor"].set_index("who").changes.to_dict() == {"ann": 2, "bot": 2, "broker standalone-0-1": 1}
    assert names["by_hour"].changes.sum() == 5
