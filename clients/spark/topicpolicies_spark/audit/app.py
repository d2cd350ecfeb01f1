"""The command line of the audit: ``topicpolicies-audit``."""

from __future__ import annotations

import contextlib
import enum
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from rich.console import Console
from rich.table import Table
from rich.text import Text

from topicpolicies_server.escaping import printable

from ..options import OptionError, read_options, time_of
from . import archive as archives
from .attribution import changed, who
from .churn import frequently_changed, reverted_fields
from .declarations import declared
from .differences import FIELDS
from .drift import drift, undeclared
from .report import report
from .session import session
from .state import before, since, state

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="What happened to topic policies: copy the brokers' change logs into an archive, and query it.",
)


_DIFFERENT = 7
"""The exit code if documents differ, as that of ``topicpolicies diff``."""


class Output(enum.Enum):
    """How results are written."""

    TABLE = "table"
    JSON = "json"


class What(enum.Enum):
    """What is exported."""

    CHANGES = "changes"
    STATE = "state"


class Format(enum.Enum):
    """The format of an export."""

    PARQUET = "parquet"
    JSON = "json"


Archive = Annotated[str, typer.Argument(metavar="ARCHIVE", help="The archive: a directory, or any place that Spark can reach.")]
Since = Annotated[str, typer.Option("--since", metavar="TIME", help="Only from this time on, such as 2030-01-31T12:00:00Z.")]
Until = Annotated[str, typer.Option("--until", metavar="TIME", help="Only before this time.")]
Limit = Annotated[int, typer.Option("--limit", min=1, metavar="N", help="The most rows to show.")]
Out = Annotated[Output, typer.Option("--output", "-o", metavar="table|json", help="A table for people, or JSON lines for programs.")]


class _Settings:
    master = "local[2]"
    remote = ""
    memory = "1g"


@app.callback()
def settings(
    master: Annotated[str, typer.Option("--master", metavar="MASTER", help="Spark's master: local[N], or a cluster's.")] = "local[2]",
    remote: Annotated[str, typer.Option("--remote", metavar="sc://HOST:PORT", help="A Spark Connect server, in place of --master.")] = "",
    driver_memory: Annotated[str, typer.Option("--driver-memory", metavar="SIZE", help="The driver's heap.")] = "1g",
) -> None:
    """Where Spark runs."""
    _Settings.master, _Settings.remote, _Settings.memory = master, remote, driver_memory


@app.command()
def ingest(  # noqa: PLR0913, PLR0917 - options
    archive: Archive,
    pulsar: Annotated[str, typer.Option("--pulsar", metavar="pulsar://HOST:PORT", help="The brokers.")],
    admin_url: Annotated[str, typer.Option("--admin-url", metavar="http://HOST:PORT", help="Their admin API.")],
    tenants: Annotated[str, typer.Option("--tenants", metavar="TENANT,...", help="Only these tenants, separated by commas.")] = "",
    namespaces: Annotated[
        str, typer.Option("--namespaces", metavar="NAMESPACE,...", help="Only these namespaces, separated by commas.")
    ] = "",
    token_file: Annotated[str, typer.Option("--token-file", metavar="FILE", help="A file with the token for the brokers.")] = "",
    tls_trust_certs: Annotated[
        str, typer.Option("--tls-trust-certs", metavar="FILE", help="The authorities of the brokers' certificates, PEM.")
    ] = "",
    allow_data_loss: Annotated[
        bool, typer.Option("--allow-data-loss", help="Continue without a log that was deleted before it was read to its end.")
    ] = False,
    every: Annotated[
        float, typer.Option("--every", min=0, metavar="SECONDS", help="Repeat, with this time between two batches; 0: run once.")
    ] = 0,
    most_rows: Annotated[int, typer.Option("--most-rows", min=1, metavar="N", help="The most rows of one batch.")] = 100_000,
) -> None:
    """Copy changes into an archive, each exactly once.

    Run again, even after it was killed, it continues where it was. Brokers compact their logs and drop superseded events: an archive has
    what still existed when it was filled. So let it run: --every 30.
    """
    options = {"serviceUrl": pulsar, "adminUrl": admin_url, "maxRowsPerTrigger": str(most_rows)}
    named = {"tenants": tenants, "namespaces": namespaces, "tokenFile": token_file, "tlsTrustCertsFile": tls_trust_certs}
    options |= {name: value for name, value in named.items() if value}
    options["failOnDataLoss"] = str(not allow_data_loss).lower()
    read_options(options)
    with _spark() as spark:
        query = archives.ingest(spark, archive, options, every_seconds=every or None)
        typer.echo(f"{archives.copied(query):,} changes copied", err=True)


@app.command("state")
def show_state(
    archive: Archive,
    as_of: Annotated[str, typer.Option("--as-of", metavar="TIME", help="The time; now if it is left out.")] = "",
    namespace: Annotated[str, typer.Option("--namespace", metavar="NAMESPACE", help="Only this namespace.")] = "",
    limit: Limit = 100,
    output: Out = Output.TABLE,
) -> None:
    """The documents of the whole cluster as of a time.

    They are those that its brokers applied then.
    """
    _check(as_of)
    with _changes(archive) as changes:
        found = state(changes, as_of)
        if namespace:
            found = found.filter(found.namespace == namespace)
        _show(found.orderBy("topic", "scope"), limit, output, "Documents")


@app.command("who")
def show_who(
    archive: Archive,
    topic: Annotated[str, typer.Option("--topic", metavar="TOPIC", help="Only this topic.")] = "",
    by: Annotated[str, typer.Option("--by", metavar="ACTOR", help="Only this actor's changes.")] = "",
    field: Annotated[str, typer.Option("--field", metavar="FIELD", help="Only changes of this field, such as retention_policies.")] = "",
    since_time: Since = "",
    until_time: Until = "",
    limit: Limit = 100,
    output: Out = Output.TABLE,
) -> None:
    """Who changed what, and when; the newest change first."""
    _check(since_time, until_time)
    if field and field not in FIELDS:
        raise typer.BadParameter(f'"{field}" is not a field: the names are those of the API, such as retention_policies.')
    with _changes(archive) as changes:
        _show(_period(who(changes, topic=topic, by=by, field=field), since_time, until_time), limit, output, "Changes")


@app.command("drift")
def show_drift(
    archive: Archive,
    from_time: Annotated[str, typer.Option("--from", metavar="TIME", help="The earlier time.")] = "",
    to_time: Annotated[str, typer.Option("--to", metavar="TIME", help="The later time; now if it is left out.")] = "",
    file: Annotated[
        str, typer.Option("--declared", metavar="FILE", help="JSON lines with topic, scope and policies, in place of --from.")
    ] = "",
    limit: Limit = 100,
    output: Out = Output.TABLE,
) -> None:
    """How the documents of two times differ.

    With --declared: how those that a file declares differ from the live ones. The exit code is 7 if they differ.
    """
    if bool(from_time) == bool(file):
        raise typer.BadParameter("Give either --from TIME or --declared FILE.")
    _check(from_time, to_time)
    with _changes(archive) as changes:
        later = state(changes, to_time)
        found = undeclared(declared(changes.sparkSession, file), later) if file else drift(state(changes, from_time), later)
        if _show(found, limit, output, "Drift"):
            raise typer.Exit(_DIFFERENT)


@app.command("churn")
def show_churn(
    archive: Archive,
    since_time: Since = "",
    until_time: Until = "",
    at_least: Annotated[int, typer.Option("--at-least", min=1, metavar="N", help="Topics with at least this many changes.")] = 10,
    fights_at_least: Annotated[
        int, typer.Option("--fights-at-least", min=1, metavar="N", help="Fields changed back at least this often.")
    ] = 2,
    limit: Limit = 100,
    output: Out = Output.TABLE,
) -> None:
    """Topics that change often, and fields changed back.

    Such fields are changed back and forth, as by two automations that want different values.
    """
    _check(since_time, until_time)
    with _changes(archive) as changes:
        within = _period(changed(changes), since_time, until_time)
        _show(frequently_changed(within, at_least), limit, output, "Topics that change often")
        _show(reverted_fields(within, fights_at_least), limit, output, "Fields that are changed back")


@app.command()
def export(
    archive: Archive,
    to: Annotated[str, typer.Argument(metavar="TO", help="A new directory, or any place that Spark can write to.")],
    what: Annotated[
        What, typer.Option("--what", metavar="changes|state", help="The changes with their fields, or the documents.")
    ] = What.CHANGES,
    form: Annotated[Format, typer.Option("--format", metavar="parquet|json", help="The format of the files.")] = Format.PARQUET,
    as_of: Annotated[str, typer.Option("--as-of", metavar="TIME", help="The time of the documents.")] = "",
    since_time: Since = "",
    until_time: Until = "",
) -> None:
    """Write changes or documents for other tools.

    They are written without the secrets of object storages.
    """
    _check(as_of, since_time, until_time)
    with _changes(archive) as changes:
        found = state(changes, as_of) if what is What.STATE else _period(changed(changes), since_time, until_time)
        found.write.format(form.value).mode("errorifexists").save(to)


@app.command("report")
def write_report(
    archive: Archive,
    html: Annotated[Path, typer.Option("--html", metavar="FILE", help="The page to write.")],
    since_time: Since = "",
    until_time: Until = "",
) -> None:
    """Write a page with plots: who changed what, and when.

    It also shows where, and which fields are changed back. It needs no other file.
    """
    _check(since_time, until_time)
    with _changes(archive) as changes:
        period = f"{since_time or 'the beginning'} to {until_time or 'now'}"
        html.write_text(report(_period(changed(changes), since_time, until_time), period), encoding="utf-8")


def main() -> None:
    """Runs a command. An error is one sentence on standard error; the exit code is 2 if the command was wrong, and 1 if Spark failed."""
    try:
        app(standalone_mode=True)
    except OSError as error:
        typer.echo(f"Error: {f'{error.filename}: {error.strerror}' if error.filename else error}", err=True)
        sys.exit(2)
    except (OptionError, ValueError) as error:
        typer.echo(f"Error: {printable(str(error))}", err=True)
        sys.exit(2)
    except PySparkException as error:
        typer.echo(f"Error: {printable(_sentence(str(error)))}", err=True)
        sys.exit(1)
    except Py4JJavaError as error:  # an exception of Java that PySpark does not convert, such as that of a file that can't be read
        typer.echo(f"Error: {printable(_sentence(str(error).partition(chr(10))[2].removeprefix(': ')))}", err=True)
        sys.exit(1)


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
    spark = session(_Settings.master, _Settings.remote, _Settings.memory)
    try:
        yield spark
    finally:
        spark.stop()


@contextlib.contextmanager
def _changes(archive: str) -> Iterator[DataFrame]:
    if not _Settings.remote:  # before Spark is started; a Connect server has directories of its own
        archives.check(archive)
    with _spark() as spark:
        yield archives.changes(spark, archive)


def _period(changes: DataFrame, since_time: str, until_time: str) -> DataFrame:
    if since_time:
        changes = since(changes, since_time)
    return before(changes, until_time) if until_time else changes


def _check(*times: str) -> None:
    for time in filter(None, times):
        try:
            time_of(time)
        except ValueError:
            raise typer.BadParameter(f'"{time}" is not a time: write it like 2030-01-31T12:00:00Z.') from None


def _show(found: DataFrame, limit: int, output: Output, title: str) -> int:
    """Prints at most ``limit`` rows. Returns how many were printed."""
    rows = [json.loads(row["value"]) for row in found.limit(limit).select(F.to_json(F.struct("*")).alias("value")).collect()]
    if output is Output.JSON:
        for row in rows:
            typer.echo(json.dumps(row))
        return len(rows)
    print_table(title, found.columns, rows)
    return len(rows)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> None:
    """Prints rows as a table, as they are: names and reasons come from outside. Elsewhere than on a terminal its lines are unbroken."""
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = 10_000
    table = Table(title=title if rows else f"{title}: none")
    for column in columns:
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(row.get(column))) for column in columns))
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
