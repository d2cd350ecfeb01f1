"""The audit's command line: wrong arguments are refused before Spark starts, and the commands answer for people and for programs."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from tests.broker.credentials import Authority
from topicpolicies_spark.audit import app as commands
from topicpolicies_spark.audit import archive
from topicpolicies_spark.audit.archive import changes as archived
from topicpolicies_spark.audit.session import retrying
from topicpolicies_spark.options import OptionError, read_options
from topicpolicies_spark.rows import Change

from .changes import NAMESPACE, change, fill

CHANGES = [
    change(1, "a", {"max_producer_per_topic": 1}, actor="one"),
    change(2, "a", {"max_producer_per_topic": 2}, actor="other"),
    change(3, "a", {"max_producer_per_topic": 1}, actor="one"),
    change(4, "a", {"max_producer_per_topic": 2}, actor="other"),
    change(5, "b", {"message_ttl_in_seconds": 5}),
]


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(commands.app, list(arguments))


@pytest.mark.parametrize(
    "arguments",
    [
        ("state", "nowhere", "--as-of", "then"),
        ("drift", "nowhere"),
        ("drift", "nowhere", "--from", "2030-01-01", "--declared", "file"),
        ("who", "nowhere", "--since", "2030-13-01"),
        ("who", ".", "--field", "retention"),
        ("ingest", "nowhere"),
        ("ingest", "nowhere", "--namespaces", "acme/orders", "--every", "inf"),
        ("churn", "nowhere", "--at-least", "0"),
    ],
)
def test_wrong_arguments_are_refused_before_spark_starts(arguments: tuple[str, ...]) -> None:
    result = _run(*arguments)
    assert result.exit_code == 2
    assert "Error" in result.output or "Usage" in result.output
    assert arguments[-1] != "retention" or '"retention" is not a field' in result.output.replace("\n", " ")


def test_a_sidecar_that_is_not_there_is_told_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    monkeypatch.setattr(sys, "argv", ["topicpolicies-audit", "ingest", "nowhere", "--address", address, "--namespaces", "acme/orders"])
    with pytest.raises(SystemExit) as ended:
        commands.main()
    printed = capsys.readouterr().err
    assert ended.value.code == 1 and address in printed and "Is a sidecar running there?" in printed and printed.count("\n") == 1
    assert not Path("nowhere").exists()


def test_what_comes_from_outside_is_shown_as_it_is_and_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    told = ["[red]release[/red] 12", "a [/] b", "\x1b[2Jgone", ["x\ty"], ["a", "[b]"], {"a": "[b]"}, ":smile:" + "long" * 100]
    commands.print_table("Changes", ["reason"], [{"reason": each} for each in told])
    shown = capsys.readouterr().out
    for each in ("[red]release[/red] 12", "a [/] b", "\\x1b[2Jgone", "x\\ty", "a, [b]", '{"a": "[b]"}', told[-1]):
        assert f" {each} " in shown
    assert "\x1b" not in shown


def test_a_page_that_can_not_be_written_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unwritable(**_: object) -> None:
        tmp_path.write_text("")

    monkeypatch.setattr(commands, "app", unwritable)
    with pytest.raises(SystemExit, match="2"):
        commands.main()
    assert capsys.readouterr().err == f"Error: {tmp_path}: Is a directory\n"


@pytest.mark.parametrize("command", ["", "ingest", "state", "who", "drift", "churn", "report", "sql", "compact"])
def test_help_fits_80_columns_and_cuts_no_sentence_off(command: str) -> None:
    result = CliRunner(env={"COLUMNS": "80"}).invoke(commands.app, [*filter(None, [command]), "-h"])
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert [line for line in lines if len(line) > 80 or (line.startswith("  ") and line.endswith("..."))] == []


@pytest.mark.parametrize(
    ("master", "meant"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("local-cluster[1,2,1024]", "local-cluster[1,2,1024]"),
        ("spark://master:7077", "spark://master:7077"),
    ],
)
def test_local_masters_retry_tasks_unless_they_name_a_number_of_failures(master: str, meant: str) -> None:
    assert retrying(master) == meant


def test_an_error_of_spark_with_a_traceback_is_printed_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    beginning = "[STREAM_FAILED] Query terminated: [PYTHON_EXCEPTION] An exception was thrown from the Python worker: "
    message = f"""{beginning}Traceback (most recent call last):
  File "reading.py", line 1, in read
    raise
_pulsar.ServiceUnitNotReady: Pulsar error: ServiceUnitNotReady
 SQLSTATE: XXKST"""

    def fail(**_: object) -> None:
        raise PySparkException(message)

    monkeypatch.setattr(commands, "app", fail)
    with pytest.raises(SystemExit) as ended:
        commands.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == f"Error: {beginning}_pulsar.ServiceUnitNotReady: Pulsar error: ServiceUnitNotReady\n"


@pytest.mark.slow
def test_a_damaged_file_of_an_archive_is_told_in_a_sentence(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "archive"
    fill(archive, CHANGES)
    for damaged in archive.rglob("*.parquet"):
        damaged.write_bytes(damaged.read_bytes()[:300])
    monkeypatch.setattr(commands, "_spark", lambda: contextlib.nullcontext(spark))
    for arguments in (["state", str(archive)], ["who", str(archive)]):
        monkeypatch.setattr(sys, "argv", ["topicpolicies-audit", *arguments])
        with pytest.raises(SystemExit) as ended:
            commands.main()
        told = capsys.readouterr().err
        assert ended.value.code == 1
        assert told.count("\n") == 1 and told.startswith("Error: ") and ".parquet" in told


@pytest.mark.slow
def test_the_error_about_a_missing_archive_names_ingest(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "_spark", lambda: contextlib.nullcontext(spark))
    for place in (tmp_path / "none", f"file://{tmp_path}/none"):
        result = _run("state", str(place))
        assert isinstance(result.exception, archive.ArchiveError)
        assert "ingest" in str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        (("--namespaces", "acme/orders"), {"namespaces": "acme/orders"}),
        (("--history-file", "h.db"), {"historyFile": "h.db"}),
        (
            ("--address", "sidecar:6680", "--admin-url", "https://broker:8443", "--ca-file", "ca.pem", "--token-file", "token"),
            {"address": "sidecar:6680", "adminUrl": "https://broker:8443", "caFile": "ca.pem", "tokenFile": "token"},
        ),
    ],
)
def test_ingest_passes_its_options_to_the_data_source(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], given: dict[str, str]
) -> None:
    taken: list[dict[str, str]] = []

    def ingest(_: object, __: str, options: dict[str, str], **___: object) -> None:
        taken.append(options)
        raise OptionError("taken")

    monkeypatch.setattr(commands, "_spark", contextlib.nullcontext)
    monkeypatch.setattr(archive, "ingest", ingest)
    monkeypatch.setattr(commands, "opened", lambda _: contextlib.nullcontext(Mock()))
    _run("ingest", "archive", *arguments)
    (options,) = taken
    read_options(options)
    assert options.items() >= given.items()


def test_settings_of_spark_are_given_as_for_spark_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[object, ...]] = []

    def session(*arguments: object, **named: object) -> SparkSession:
        given.append((arguments, named))
        raise OptionError("no session is needed")

    monkeypatch.setattr(commands, "session", session)
    conf = ("--conf", "spark.jars.packages=org.apache.hadoop:hadoop-aws:3.5.0", "--conf", "spark.hadoop.fs.s3a.endpoint=http://a/?b=c")
    _run("--master", "yarn", *conf, "state", "s3a://bucket/archive")
    settings = {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.5.0", "spark.hadoop.fs.s3a.endpoint": "http://a/?b=c"}
    assert given == [(("yarn", ""), {"conf": settings})]
    refused = _run("--conf", "spark.jars", "state", "archive")
    assert refused.exit_code == 2 and "KEY=VALUE" in refused.output


def test_compaction_over_connect_is_refused() -> None:
    refused = _run("--remote", "sc://server:15002", "compact", "archive")
    assert refused.exit_code == 2 and "leave out --remote" in refused.output


def test_brokers_without_an_admin_url_and_beside_a_sidecar_are_refused() -> None:
    assert "leave out --address" in _run("ingest", "a", "--pulsar", "pulsar://b:1", "--address", "s:1").output.replace("\n", " ")
    refused = _run("ingest", "a", "--pulsar", "pulsar://b:1", "--namespaces", "acme/orders")
    assert refused.exit_code == 2 and "--admin-url" in refused.output
    elsewhere = _run("ingest", "s3a://bucket/a", "--pulsar", "pulsar://b:1", "--admin-url", "http://b:2")
    assert elsewhere.exit_code == 2 and "on this machine" in elsewhere.output


def test_the_sidecar_of_an_ingest_gets_the_options_for_brokers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given: list[str] = []

    @contextlib.contextmanager
    def started(options: list[str]) -> Iterator[str]:
        given.extend(options)
        yield "127.0.0.1:1"

    monkeypatch.setattr(commands, "sidecar", started)
    token = tmp_path / "token"
    token.write_text("secret")
    token.chmod(0o600)
    options = {"adminUrl": "https://b:2", "tokenFile": str(token), "adminCaFile": str(Authority(tmp_path).trust)}
    with commands._source(str(tmp_path), "pulsar+ssl://b:1", options) as chosen:
        assert chosen == {**options, "address": "127.0.0.1:1"}
    serve = [sys.executable, "-m", "topicpolicies_server", "config", *given]
    assert subprocess.run(serve, stdout=subprocess.DEVNULL, check=False).returncode == 0


def test_ctrl_c_ends_a_command_without_a_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "app", interrupted)
    with pytest.raises(SystemExit) as ended:
        commands.main()
    assert ended.value.code == 130 and capsys.readouterr().err == ""


def test_sigterm_ends_a_command_in_order_so_that_its_sidecar_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[str] = []

    def terminated(**_: object) -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            stopped.append("the sidecar")

    monkeypatch.setattr(commands, "app", terminated)
    with pytest.raises(SystemExit) as ended:
        commands.main()
    assert ended.value.code == 143 and stopped


@pytest.mark.slow
def test_a_period_has_what_was_changed_within_it(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        change(1, "a", {"max_producer_per_topic": 1}, actor="one"),
        change(2, "b", {"max_producer_per_topic": 1}, actor="one"),
        change(5, "a", {"max_producer_per_topic": 1}, [], actor="restating"),
        change(6, "b", None, ["max_producer_per_topic"], actor="deleting"),
        change(7, "a", {"max_producer_per_topic": 1, "message_ttl_in_seconds": 5}, ["message_ttl_in_seconds"], actor="one"),
    ]
    archive = str(tmp_path / "archive")
    fill(archive, rows)
    monkeypatch.setattr(commands, "_spark", lambda: contextlib.nullcontext(spark))
    period = ("--since", "1970-01-01T00:00:05Z")
    who = [json.loads(line) for line in _run("who", archive, *period, "-o", "json").output.splitlines()]
    assert [(row["who"], row["changed"]) for row in who] == [("one", ["message_ttl_in_seconds"]), ("deleting", ["max_producer_per_topic"])]
    values = [(row.get("before"), row.get("after")) for row in who]
    assert values == [({}, {"message_ttl_in_seconds": "5"}), ({"max_producer_per_topic": "1"}, None)]
    assert _run("who", archive, "--namespace", "acme/others", "-o", "json").output == ""
    churn = [json.loads(line) for line in _run("churn", archive, *period, "--at-least", "1", "-o", "json").output.splitlines()]
    assert [(row["topic"].rpartition("/")[2], row["changes"], row["actors"]) for row in churn] == [("a", 1, 1), ("b", 1, 1)]
    page = tmp_path / "report.html"
    _run("report", archive, *period, "--html", str(page))
    assert "2 changes by 2 actors" in page.read_text() and "restating" not in page.read_text()


@pytest.mark.slow
def test_every_command_answers_about_an_archive(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def shared() -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(commands, "_spark", shared)
    archive = str(tmp_path / "archive")
    fill(archive, CHANGES)

    assert archived(spark, archive).columns == list(Change._fields)
    state = _run("state", archive, "-o", "json", "--as-of", "1970-01-01T00:00:03Z")
    (only,) = map(json.loads, state.output.splitlines())
    assert (only["topic"], only["who"], only["policies"]) == (f"persistent://{NAMESPACE}/a", "one", {"max_producer_per_topic": 1})
    who = [json.loads(line) for line in _run("who", archive, "--by", "one", "-o", "json").output.splitlines()]
    assert [row["changed"] for row in who] == [["max_producer_per_topic"]] * 2
    churn = [json.loads(line) for line in _run("churn", archive, "--at-least", "4", "-o", "json").output.splitlines()]
    assert [row.get("changes", row.get("times_undone")) for row in churn] == [4, 2]

    drift = _run("drift", archive, "--from", "1970-01-01T00:00:02Z")
    assert drift.exit_code == 7 and "appeared" in drift.output
    assert _run("drift", archive, "--from", "1970-01-01T00:00:05Z").exit_code == 0
    declared = tmp_path / "declared.jsonl"
    declared.write_text(json.dumps({"topic": f"persistent://{NAMESPACE}/b", "policies": {"message_ttl_in_seconds": 5}}))
    assert _run("drift", archive, "--declared", str(declared)).exit_code == 0

    twice = _run("sql", archive, "SELECT who, action AS who FROM changes")
    assert twice.exit_code == 2 and "Two columns are named who" in twice.output
    page = tmp_path / "report.html"
    assert _run("report", archive, "--html", str(page)).exit_code == 0
    assert "5 changes by 3 actors" in page.read_text()
    few = _run("who", archive, "--limit", "2", "-o", "json")
    assert len(few.output.splitlines()) == 3 and "There are more than 2" in few.output
