"""The command line of the audit: ``topicpolicies-audit``."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from rich.console import Console
from rich.table import Table
from rich.text import Text

from topicpolicies import DeadlineExceeded, TopicPoliciesError, Unavailable
from topicpolicies_server.cli.exits import INTERRUPTED, ExitCode, terminated
from topicpolicies_server.cli.globals import Output
from topicpolicies_server.cli.history import parse_time
from topicpolicies_server.escaping import printable
from topicpolicies_server.logs.change_log import LogError

from ..documents import SPARK_TYPE
from ..histories import opened
from ..options import read_options
from . import archive as archives
from .compact import compact
from .declarations import declared
from .questions import drift, frequently_changed, made, reverted_fields, state, who
from .report import report
from .session import session
from .sidecar import NotStartedError, sidecar

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="What happened to topic policies: copy a sidecar's history into an archive, and query it.",
)


_INCOMPLETE = 8
"""The exit code of an ingest whose history may miss events."""
_MOST_ROWS = "1000000"
"""The most rows of one batch of an ingest."""


def _moment(option: str, text: str) -> Any:
    """Returns an option that takes a time, as ``topicpolicies`` reads it, and gives it in UTC."""

    def time(value: str) -> str:
        return parse_time(value, option).astimezone(UTC).isoformat() if value else ""

    return typer.Option(option, parser=time, metavar="TIME", help=text)


def _text(option: str, metavar: str, text: str) -> Any:
    """Returns an option that takes a text."""
    return typer.Option(option, metavar=metavar, help=text)


Archive = Annotated[str, typer.Argument(metavar="ARCHIVE", help="The archive: a directory, or any place that Spark can reach.")]
Since = Annotated[str, _moment("--since", "Only from this time on, such as 2030-01-31T12:00:00Z or 2h-ago.")]
Until = Annotated[str, _moment("--until", "Only before this time.")]
AsOf = Annotated[str, _moment("--as-of", "The time; now if it is left out.")]
Namespace = Annotated[str, _text("--namespace", "NAMESPACE", "Only this namespace.")]
Limit = Annotated[int, typer.Option("--limit", min=1, metavar="N", help="The most rows to show.")]
Out = Annotated[Output, typer.Option("--output", "-o", metavar="table|json", help="A table for people, or JSON lines for programs.")]


class _Settings:
    master = "local[2]"
    remote = ""
    conf: Mapping[str, str] = {}


@app.callback()
def settings(
    master: Annotated[str, _text("--master", "MASTER", "Spark's master: local[N], or a cluster's.")] = "local[2]",
    remote: Annotated[str, _text("--remote", "sc://HOST:PORT", "A Spark Connect server, in place of --master.")] = "",
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark, as of spark-submit; may be repeated."),
    ] = None,
) -> None:
    """Where and how Spark runs."""
    _Settings.master, _Settings.remote = master, remote
    if not all("=" in each for each in conf or ()):
        raise typer.BadParameter("Write a setting of Spark as KEY=VALUE.", param_hint="--conf")
    _Settings.conf = dict(each.split("=", 1) for each in conf or ())


@app.command()
def ingest(  # noqa: PLR0913, PLR0917 - options
    archive: Archive,
    address: Annotated[str, _text("--address", "HOST:PORT", "The sidecar whose history is copied.")] = "",
    history_file: Annotated[str, _text("--history-file", "FILE", "The file of a history, in place of a sidecar.")] = "",
    pulsar: Annotated[str, _text("--pulsar", "pulsar://HOST:PORT", "Brokers beside which no sidecar runs; needs --admin-url.")] = "",
    admin_url: Annotated[str, _text("--admin-url", "http://HOST:PORT", "The brokers' admin API, which lists the namespaces.")] = "",
    tenants: Annotated[str, _text("--tenants", "TENANT,...", "Only these tenants, separated by commas.")] = "",
    namespaces: Annotated[
        str,
        _text(
            "--namespaces",
            "NAMESPACE,...",
            "Only these namespaces, separated by commas. Needed without --admin-url and --history-file.",
        ),
    ] = "",
    token_file: Annotated[str, _text("--token-file", "FILE", "A file with the token for the sidecar and the brokers.")] = "",
    ca_file: Annotated[str, _text("--ca-file", "FILE", "The authorities of the sidecar's certificate, PEM.")] = "",
    admin_ca_file: Annotated[str, _text("--admin-ca-file", "FILE", "The authorities of the brokers' certificates, PEM.")] = "",
    every: Annotated[
        float,
        typer.Option("--every", min=0, max=1_000_000_000, metavar="SECONDS", help="Repeat after this time; 0: run once."),
    ] = 0,
) -> None:
    """Copy changes into an archive, each exactly once.

    They come from the history of a sidecar: of one at 127.0.0.1:6680 unless you say otherwise. Run again, even after it was killed, it
    continues where it was. The exit code is 8 if the history may miss events: the message says which.

    With --pulsar it runs a sidecar of its own, which reads the brokers' logs and keeps its history in the archive. Brokers compact their
    logs and drop superseded events: what was gone before it was read is a gap. So let it run: --every 30.
    """
    if pulsar and (address or history_file):
        raise typer.BadParameter("--pulsar is for brokers without a sidecar: leave out --address and --history-file.")
    if pulsar and not admin_url:
        raise typer.BadParameter("--pulsar needs --admin-url, the brokers' admin API.")
    if pulsar and not (archives.is_local(archive) and _Settings.master.startswith("local") and not _Settings.remote):
        raise typer.BadParameter("--pulsar runs a sidecar on this machine, so Spark and the archive must be here.")
    named = {"address": address, "historyFile": history_file, "namespaces": namespaces, "adminUrl": admin_url, "tenants": tenants}
    named |= {"tokenFile": token_file, "caFile": ca_file, "adminCaFile": admin_ca_file, "maxRowsPerTrigger": _MOST_ROWS}
    options = {name: value for name, value in named.items() if value}
    if not (history_file or namespaces or admin_url):
        raise typer.BadParameter("Name the --namespaces, or the --admin-url of the brokers that list them.")
    with opened(read_options(options)) as history:
        if not pulsar:
            history.check()
    with _source(archive, pulsar, options) as chosen, _spark() as spark:
        if every:  # only a signal ends it
            _tell_gaps(archives.gaps_of_history(chosen))
        query = archives.ingest(spark, archive, chosen, every_seconds=every or None)
        query.awaitTermination()
        typer.echo(f"The archive has {archives.changes(spark, archive).count():,} events.", err=True)
        unknown = archives.gaps(spark, archive, chosen)
    if unknown:
        _tell_gaps(unknown)
        raise typer.Exit(_INCOMPLETE)


def _tell_gaps(unknown: Sequence[str]) -> None:
    if unknown:
        typer.echo("Not all that happened is known:", err=True)
    for line in unknown:
        typer.echo(f"  {printable(line)}", err=True)


@contextlib.contextmanager
def _source(archive: str, pulsar: str, options: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """Yields the options of the data source; with ``pulsar``, a sidecar of our own runs meanwhile."""
    if not pulsar:
        yield options
        return
    directory = Path(archive)
    directory.mkdir(parents=True, exist_ok=True)
    wanted = ["--pulsar", pulsar, "--admin-url", options["adminUrl"], "--history", str(directory / "history.db")]
    given = {"--pulsar-token-file": options.get("tokenFile"), "--pulsar-tls-trust-certs": options.get("adminCaFile")}
    wanted += [word for name, value in given.items() if value for word in (name, value)]
    with sidecar(wanted) as address:
        yield {**options, "address": address}


@app.command("state")
def show_state(archive: Archive, as_of: AsOf = "", namespace: Namespace = "", limit: Limit = 100, output: Out = Output.TABLE) -> None:
    """The documents of the whole archive as of a time.

    They are those that `topicpolicies get --as-of` shows.
    """
    with _changes(archive, namespace=namespace) as changes:
        _show(state(changes, as_of).orderBy("topic", "scope"), limit, output, "Documents")


@app.command("who")
def show_who(  # noqa: PLR0913, PLR0917 - options
    archive: Archive,
    topic: Annotated[str, _text("--topic", "TOPIC", "Only this topic.")] = "",
    by: Annotated[str, _text("--by", "WHO", "Only the changes of this actor, as the column `who` names it.")] = "",
    field: Annotated[str, _text("--field", "PATH", "Only changes of this field, such as retention_policies, or of what is in it.")] = "",
    namespace: Namespace = "",
    since_time: Since = "",
    until_time: Until = "",
    limit: Limit = 100,
    output: Out = Output.TABLE,
) -> None:
    """Who changed what, and when; the newest change first.

    Of an event that names no actor, `who` is "(not said)", or the producer if a broker wrote it. `standing` says whether the actor is
    verified. `before` and `after` have the values of the fields that changed.
    """
    name = field.partition(".")[0]
    if field and name not in SPARK_TYPE.names:
        near = get_close_matches(name, SPARK_TYPE.names, 1) or ["retention_policies"]
        raise typer.BadParameter(f'"{name}" is not a field: the names are those of the API, such as {near[0]}.')
    with _changes(archive, since_time, until_time, namespace) as changes:
        _show(who(changes, topic=topic, by=by, field=field), limit, output, "Changes")


@app.command("drift")
def show_drift(
    archive: Archive,
    from_time: Annotated[str, _moment("--from", "The earlier time.")] = "",
    to_time: Annotated[str, _moment("--to", "The later time; now if it is left out.")] = "",
    file: Annotated[str, _text("--declared", "FILE", "JSON lines with topic, scope and policies, in place of --from.")] = "",
    limit: Limit = 100,
    output: Out = Output.TABLE,
) -> None:
    """How the documents of two times differ.

    With --declared: how those that a file declares differ from the live ones. The exit code is 7 if they differ.
    """
    if bool(from_time) == bool(file):
        raise typer.BadParameter("Give either --from TIME or --declared FILE.")
    with _changes(archive) as changes:
        later = state(changes, to_time)
        one = declared(changes.sparkSession, file) if file else state(changes, from_time)
        if _show(drift(one, later, declared=bool(file)), limit, output, "Drift"):
            raise typer.Exit(ExitCode.DIFFERENT)


@app.command("churn")
def show_churn(
    archive: Archive,
    since_time: Since = "",
    until_time: Until = "",
    at_least: Annotated[int, typer.Option("--at-least", min=1, metavar="N", help="Topics with at least this many changes.")] = 10,
    fights_at_least: Annotated[
        int, typer.Option("--fights-at-least", min=1, metavar="N", help="Fields changed back at least this often.")
    ] = 2,
    namespace: Namespace = "",
    limit: Limit = 100,
    output: Out = Output.TABLE,
) -> None:
    """Topics that change often, and fields changed back.

    A field is changed back if one actor restores the value from before another actor's change, also by a deletion: two automations that
    want different values do it again and again.
    """
    with _changes(archive, since_time, until_time, namespace) as changes:
        within = made(changes)
        _show(frequently_changed(within, at_least), limit, output, "Topics that change often")
        _show(reverted_fields(within, fights_at_least), limit, output, "Fields that are changed back")


@app.command("report")
def write_report(
    archive: Archive,
    html: Annotated[Path, typer.Option("--html", metavar="FILE", help="The page to write.")],
    since_time: Since = "",
    until_time: Until = "",
    namespace: Namespace = "",
) -> None:
    """Write a page with plots: who changed what, and when.

    It also shows where, and which fields are changed back. It needs no other file.
    """
    period = f"{namespace and f'{namespace}, '}{since_time or 'the beginning'} to {until_time or 'now'}"
    with _changes(archive, since_time, until_time, namespace) as changes:
        html.write_text(report(changes, period), encoding="utf-8")
    typer.echo(f"The report: {html}", err=True)


@app.command("sql")
def query(
    archive: Archive,
    text: Annotated[str, typer.Argument(metavar="QUERY", help="The query.")],
    as_of: AsOf = "",
    limit: Limit = 100,
    output: Out = Output.TABLE,
) -> None:
    """Ask an archive in SQL: the views are changes and state.

    changes has a row for each event, and state the documents as of a time.
    """
    with _spark() as spark:
        archives.views(spark, archive, as_of)
        found = spark.sql(text)
        names = found.columns
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise typer.BadParameter(f"Two columns are named {twice[0]}: give one of them another name, with AS.")
        _show(found, limit, output, "Rows")


@app.command("compact")
def run_compact(archive: Archive) -> None:
    """Make one file of each day that is over.

    It is sorted by namespace and position. An ingest may run meanwhile. If it is interrupted, run it again.
    """
    if _Settings.remote:
        raise typer.BadParameter("A Spark Connect server can't compact: leave out --remote.")
    with _spark() as spark:
        typer.echo(f"Compacted days: {compact(spark, archive):,}. Today is not over, and other days have one file.", err=True)


def main() -> None:
    """Runs a command. An error is one sentence on standard error; the exit code is 2 if the command was wrong, and 1 if Spark failed."""
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True  # it would print errors a second time, as JSON
    signal.signal(signal.SIGTERM, terminated)  # so that the sidecar of an ingest is stopped, too
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error), ExitCode.USAGE)
    except ValueError as error:
        _fail(str(error), ExitCode.USAGE)
    except NotStartedError as error:
        typer.echo(str(error), err=True)
        sys.exit(ExitCode.ERROR)
    except (Unavailable, DeadlineExceeded) as error:
        _fail(f"{str(error).rstrip('.')}. Is a sidecar running there? Start it with `topicpolicies serve`, or name its --address.")
    except (TopicPoliciesError, LogError) as error:
        _fail(str(error))
    except PySparkException as error:
        _fail(_sentence(str(error)))
    except Py4JJavaError as error:  # an exception of Java that PySpark does not convert, such as that of a file that can't be read
        _fail(_sentence(str(error).partition("\n")[2].removeprefix(": ")))


def _fail(problem: str, code: ExitCode = ExitCode.ERROR) -> NoReturn:
    typer.echo(f"Error: {printable(problem)}", err=True)
    sys.exit(code)


def _sentence(problem: str) -> str:
    """Returns the first line of Spark's message; if that announces a traceback, with the exception at the traceback's end instead."""
    first, _, rest = problem.partition("\n")
    announced, traceback, _ = first.partition("Traceback (most recent call last):")
    if not traceback:
        return first
    exception = next((line.strip() for line in rest.splitlines() if line.strip() and not line.startswith(" ")), "")
    return f"{announced}{exception}"


@contextlib.contextmanager
def _spark() -> Iterator[SparkSession]:
    spark = session(_Settings.master, _Settings.remote, conf=_Settings.conf)
    try:
        yield spark
    finally:
        spark.stop()


@contextlib.contextmanager
def _changes(archive: str, since_time: str = "", until_time: str = "", namespace: str = "") -> Iterator[DataFrame]:
    if archives.is_local(archive) and not _Settings.remote and not (Path(archive) / archives.CHANGES).is_dir():
        raise archives.missing(archive)  # before Spark is started
    with _spark() as spark:
        found = archives.changes(spark, archive, since_time, until_time)
        yield found.filter(found.namespace == namespace) if namespace else found


def _show(found: DataFrame, limit: int, output: Output, title: str) -> int:
    """Prints at most ``limit`` rows, and says if there are more. Returns how many were printed."""
    read = found.limit(limit + 1).select(F.to_json(F.struct("*")).alias("value")).collect()
    rows = [json.loads(row["value"]) for row in read[:limit]]
    if output is Output.JSON:
        for row in rows:
            typer.echo(json.dumps(row))
    else:
        print_table(title, found.columns, rows)
    if len(read) > limit:
        typer.echo(f"There are more than {limit:,}: see further ones with --limit.", err=True)
    return len(rows)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> None:
    """Prints rows as a table, as they are: names and reasons come from outside. Elsewhere than on a terminal its lines are unbroken."""
    table = Table(title=title if rows else f"{title}: none")
    for column in columns:
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(row.get(column))) for column in columns))
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 10_000
    console.print(table)


def _cell(value: object) -> str:
    """Returns a value as it is shown. Unprintable characters are escaped: they could move the cursor or change colours."""
    if isinstance(value, list):
        text = ", ".join(map(str, value))
    else:
        text = json.dumps(value) if isinstance(value, dict) else "" if value is None else str(value)
    return printable(text)


if __name__ == "__main__":
    main()
