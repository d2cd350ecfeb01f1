"""The commands of declared policies: plan, apply, export."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from topicpolicies import Client, OutcomeUnknown, PolicyDocument, Violation

from ...core.errors import PolicyError
from ...core.names import parse_topic
from ...escaping import printable
from ..documents import Scopes
from ..exits import DetailedExitCode, ExitCode, differing, error_json, exit_code, report, reporting
from ..files import STANDARD_INPUT, STANDARD_OUTPUT, check_there, name_of, read_text, write_text, wrong
from ..interrupts import INTERRUPTED
from ..settings import Output, ScopeNames, Settings, settings
from ..showing import forms
from ..showing.notes import waiting
from ..showing.rendering import scope_name, show_differences
from .applying import Applied, Invalid, Planned, make, validated
from .declared import Declared, export, load
from .planning import Key, Step, steps, topics_of

if TYPE_CHECKING:
    from ..broker_client import BrokerClient

AdminUrl = Annotated[
    str | None,
    typer.Option("--admin-url", metavar="http://HOST:PORT", help="The brokers' admin API, which is called in place of a server."),
]
AdminToken = Annotated[Path | None, typer.Option("--admin-token-file", metavar="FILE", help="A file with the token for --admin-url.")]
_COMPARING = "Comparing the file with the documents of the server"
"""What plan and apply do before they show anything."""
File = Annotated[
    Path, typer.Option("--file", "-f", metavar="FILE", help="The declared policies: a file, a folder of files, or - for standard input.")
]
Prune = Annotated[bool, typer.Option("--prune", help="Also clear undeclared settings, and delete undeclared documents of namespaces:.")]
Topics = Annotated[
    Path | None,
    typer.Option("--topics", metavar="FILE", help="Further topics that patterns may match, one per line; - is standard input."),
]


def plan(
    context: typer.Context,
    file: File,
    prune: Prune = False,
    topics: Topics = None,
    detailed: DetailedExitCode = False,
    admin_url: AdminUrl = None,
    admin_token: AdminToken = None,
) -> None:
    """Show what apply would change, and write nothing.

    The server also checks each change. Ends with exit code 0 if there is nothing to change, 7 if there is (2 with --detailed-exitcode),
    2 if the file is wrong or the server refuses a part of it (1 with --detailed-exitcode).

    \b
    Examples:
      topicpolicies plan -f policies.yaml
      topicpolicies plan -f policies.yaml --prune --output json
      pulsar-admin topics list public/default |
          topicpolicies plan -f policies.yaml --topics -
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    with differing(detailed=detailed) as differ:
        differ(bool(_planned(chosen, _client(chosen, admin_url, admin_token), file, topics, prune=prune)))


def apply(
    context: typer.Context,
    file: File,
    prune: Prune = False,
    topics: Topics = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show and check everything, and write nothing.")] = False,
    admin_url: AdminUrl = None,
    admin_token: AdminToken = None,
) -> None:
    """Change documents to what the file declares.

    It makes one change for each document that differs. It shows the differences, lets the server check all changes, and asks, if you are at
    a terminal. Then it sends the updates, in batches, and after them the deletions, each on condition that the document is still as it was
    read. If one fails, it sends nothing more, and shows what was done and what was not; run it again to complete it. Ends with exit code 0
    if all is as declared, 8 if only a part was done, otherwise with the code of the failed change.

    \b
    Examples:
      topicpolicies apply -f policies.yaml
      topicpolicies apply -f policies/ --dry-run
      topicpolicies export public/default | topicpolicies apply -f - --server other:6680
      topicpolicies apply -f policies.yaml \\
          --prune --yes --reason "release 12" --output json
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    if dry_run:
        _planned(chosen, _client(chosen, admin_url, admin_token), file, topics, prune=prune)
        return
    with _client(chosen, admin_url, admin_token) as client:
        planned = _plan(client, chosen, file, topics, prune=prune)
        if not chosen.for_programs:
            _show(planned, "to be changed")
        if planned and not yes and sys.stdin.isatty() and sys.stdout.isatty():
            typer.confirm("Make these changes?", abort=True)
        report_done = (lambda *_: None) if chosen.for_programs else _report_done
        applied = make(client, planned, actor=chosen.actor, reason=chosen.reason, report=report_done)
    if chosen.for_programs:
        chosen.show(_json(planned, applied))
    elif applied.failed or applied.interrupted:
        _report_failed(planned, applied)
    elif planned:
        typer.echo(f"{len(planned)} document{'' if len(planned) == 1 else 's'} changed", err=True)
    if applied.interrupted:
        raise typer.Exit(INTERRUPTED)
    if applied.failed:
        unknown = any(isinstance(error, OutcomeUnknown) for error in applied.failed.values())
        first = next(applied.failed[each.step.key] for each in planned if each.step.key in applied.failed)
        raise typer.Exit(ExitCode.HALF_DONE if applied.done or unknown else exit_code(first))


def export_(
    context: typer.Context,
    namespaces: Annotated[list[str], typer.Argument(metavar="NAMESPACE", help="Namespaces: tenant/namespace.")],
    scope: Scopes = ScopeNames.BOTH,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", dir_okay=False, help="The file to write; by default, and with -, standard output."),
    ] = None,
    admin_url: AdminUrl = None,
    admin_token: AdminToken = None,
) -> None:
    """Write a file that declares the present documents.

    The file is for plan and apply. With --output json it is JSON, which they read too.

    \b
    Examples:
      topicpolicies export public/default > policies.yaml
      topicpolicies export public/default public/payments -f policies.yaml
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    with _client(chosen, admin_url, admin_token) as client:
        with waiting(chosen):
            documents = [document for namespace in namespaces for document in client.list(namespace, scopes=scope.scopes)]
        if not isinstance(client, Client):
            for note in client.notes:
                typer.echo(forms.dumps({"note": note}) if chosen.json else printable(note), err=True)
        text = export(documents, dict.fromkeys(namespaces), as_json=chosen.json)
        if file is not None and file != STANDARD_OUTPUT:
            write_text(file, text)
            return
    typer.echo(text.encode(), nl=False)  # UTF-8, as plan and apply read it, whatever the locale


@contextmanager
def _client(chosen: Settings, admin_url: str | None, admin_token: Path | None) -> Iterator[Client | BrokerClient]:
    """Yields a client of the server or, with a URL, of the brokers' admin API. An error of the body is reported (``reporting``)."""
    if admin_url is None:
        with reporting(chosen.output, chosen.server), chosen.client() as client:
            yield client
        return
    from ..broker_client import broker_client  # noqa: PLC0415 - what it needs is installed for servers only

    with reporting(chosen.output), broker_client(chosen, admin_url, admin_token) as brokers:
        yield brokers


def _planned(
    chosen: Settings, calling: AbstractContextManager[Client | BrokerClient], file: Path, topics: Path | None, *, prune: bool
) -> list[Planned]:
    """Shows and returns what would be changed."""
    with calling as client:
        planned = _plan(client, chosen, file, topics, prune=prune)
    if chosen.for_programs:
        chosen.show({"steps": [each.json() for each in planned]})
    else:
        _show(planned, "not as declared")
    return planned


def _plan(client: Client | BrokerClient, chosen: Settings, file: Path, topics: Path | None, *, prune: bool) -> list[Planned]:
    """Returns the steps that would change something, all of which the server accepts.

    Raises:
        typer.Exit: the server refuses some steps; all refusals were reported.
    """
    _check_files(file, topics)
    with waiting(chosen, _COMPARING):
        return _accepted(client, chosen, load(file), topics, prune=prune)


def _accepted(client: Client | BrokerClient, chosen: Settings, declared: Declared, topics: Path | None, *, prune: bool) -> list[Planned]:
    if not isinstance(client, Client):
        client.declarations, client.everything = declared.declarations, prune
    wanted = [*(each.namespace for each in declared.declarations), *(declared.namespaces if prune else ())]
    documents: dict[Key, PolicyDocument] = {}
    for namespace in dict.fromkeys(wanted):
        documents |= {(each.topic, each.scope): each for each in client.list(namespace)}
    by_key = topics_of(declared, [*(topic for topic, _ in documents), *_listed(topics)])
    for topic, scope in by_key:
        if (topic, scope) not in documents:
            documents[topic, scope] = client.get(topic, scope=scope)
    todo = steps(by_key, documents, prune=declared.namespaces if prune else None)
    planned: list[Planned] = []
    refused: list[Invalid] = []
    for outcome in validated(client, todo):
        if isinstance(outcome, Invalid):
            refused.append(outcome)
        else:
            planned.append(outcome)
    if refused:
        _report_refused(refused, chosen)
        raise typer.Exit(exit_code(refused[0].error))
    return planned


def _check_files(file: Path, topics: Path | None) -> None:
    """Checks the files of the command.

    Raises:
        typer.BadParameter: a file does not exist, or both are standard input.
        OSError: it is not known whether one exists.
    """
    check_there(file, "--file")
    check_there(topics, "--topics")
    if file == topics == STANDARD_INPUT:
        raise typer.BadParameter("Only one of --file and --topics can be standard input.", param_hint="--topics")


def _listed(path: Path | None) -> Iterator[str]:
    """Yields the full names of the topics in a file. A partition stands for its topic."""
    if path is None:
        return
    for number, line in enumerate(read_text(path).splitlines(), 1):
        name = line.strip().strip('"')
        if name:
            try:
                yield str(parse_topic(name))
            except PolicyError as error:
                raise wrong(Violation(f"{name_of(path)}:{number}", "MALFORMED_NAME", error.message)) from None


def _show(planned: Sequence[Planned], state: str) -> None:
    for each in planned:
        title = f"{'delete' if each.step.deletes else 'change'}  {_title(each.step)}"
        typer.secho(title, fg="red" if each.step.deletes else None, bold=not each.step.deletes)
        show_differences(each.differences)
    if not planned:
        typer.echo("Everything is as declared.", err=True)
    else:
        typer.echo(f"{len(planned)} document{' is' if len(planned) == 1 else 's are'} {state}.", err=True)


def _report_refused(steps_refused: Sequence[Invalid], chosen: Settings) -> None:
    """Reports all steps that the server refuses, and that nothing was changed. The code is that of the first refusal."""
    if chosen.json:
        told = [_named(step) | {"error": error_json(error)} for step, error in steps_refused]
        count = f"{len(told)} change{'' if len(told) == 1 else 's'}"
        code = steps_refused[0].error.code.name
        message = f"The server refuses {count}; nothing was changed."
        typer.echo(forms.dumps({"error": {"code": code, "reason": "REFUSED", "message": message, "refused": told}}), err=True)
        return
    for step, error in steps_refused:
        typer.echo(f"refused  {_title(step)}", err=True)
        report(error, Output.TABLE)
    typer.echo("Nothing was changed.", err=True)


def _report_done(planned: Planned, version: str) -> None:
    typer.echo(f"{'deleted' if planned.step.deletes else 'changed'}  {_title(planned.step)}  version {version}")


def _report_failed(planned: Iterable[Planned], applied: Applied) -> None:
    counts = {"failed": 0, "unknown": 0, "not sent": 0}
    for each in planned:
        if each.step.key in applied.done:
            continue
        error = applied.failed.get(each.step.key)
        became = "not sent" if error is None else "unknown" if isinstance(error, OutcomeUnknown) else "failed"
        counts[became] += 1
        typer.echo(f"{became:<8}  {_title(each.step)}", err=True)
        if error is not None:
            report(error, Output.TABLE)
    told = [f"{len(applied.done)} done", *(f"{count} {became}" for became, count in counts.items() if count or became == "not sent")]
    typer.echo(f"{', '.join(told)}: apply again to complete it.", err=True)


def _json(planned: Iterable[Planned], applied: Applied) -> dict[str, Any]:
    """Returns what was done, what failed, and what was not sent."""
    by_key = {each.step.key: _named(each.step) for each in planned}
    told = {"done": [named | {"version": applied.done[key]} for key, named in by_key.items() if key in applied.done]}
    failed = [named | {"error": error_json(applied.failed[key])} for key, named in by_key.items() if key in applied.failed]
    return told | {"failed": failed, "not_sent": [named for key, named in by_key.items() if key not in {*applied.done, *applied.failed}]}


def _named(step: Step) -> dict[str, Any]:
    return {"topic": step.document.topic, "scope": scope_name(step.document)}


def _title(step: Step) -> str:
    return f"{printable(step.document.topic)}  {scope_name(step.document)}"
