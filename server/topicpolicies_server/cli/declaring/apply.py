"""The commands of declared policies: plan, apply, export."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from topicpolicies import Client, OutcomeUnknown, PolicyDocument, Violation

from ...core.errors import PolicyError
from ...core.names import parse_topic
from ...escaping import printable
from ..exits import ExitCode, error_json, exit_code, report, reporting
from ..files import STANDARD_INPUT, STANDARD_OUTPUT, check_there, name_of, read_text, write_text, wrong
from ..interrupts import INTERRUPTED
from ..settings import Output, ScopeNames, Settings, settings
from ..showing import json_forms
from ..showing.differences import show
from ..showing.rendering import console, scope_name
from ..showing.waiting import waiting
from .applying import Applied, Invalid, Planned, make, validated
from .declared import Declared, export, export_json, load
from .planning import Key, Step, steps, topics_of

_COMPARING = "Comparing the file with the documents of the server"
"""What plan and apply do before they show anything."""
File = Annotated[
    Path,
    typer.Option(
        "--file",
        "-f",
        metavar="FILE.yaml",
        dir_okay=False,
        help="The declared policies; - is standard input.",
    ),
]
Prune = Annotated[
    bool,
    typer.Option("--prune", help="Also clear undeclared settings, and delete undeclared documents of namespaces:."),
]
Topics = Annotated[
    Path | None,
    typer.Option("--topics", metavar="FILE", help="Further topics that patterns may match, one per line; - is standard input."),
]


def plan(context: typer.Context, file: File, prune: Prune = False, topics: Topics = None) -> None:
    """Show what apply would change, and write nothing.

    The server also checks each change. Ends with exit code 0 if there is nothing to change, 7 if there is, 2 if the file is wrong or the
    server refuses a part of it.

    \b
    Examples:
      topicpolicies plan -f policies.yaml
      topicpolicies plan -f policies.yaml --prune --output json
      pulsar-admin topics list public/default |
          topicpolicies plan -f policies.yaml --topics -
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    with reporting(chosen.output, chosen.server), chosen.client() as client, waiting(chosen, _COMPARING):
        _check_files(file, topics)
        planned = _plan(client, chosen, load(file), prune=prune, topics=topics)
    if chosen.json:
        json_forms.write({"steps": [each.json() for each in planned]})
    else:
        _show(planned, "not as declared")
    if planned:
        raise typer.Exit(ExitCode.DIFFERENT)


def apply(context: typer.Context, file: File, prune: Prune = False, topics: Topics = None) -> None:
    """Change documents to what the file declares.

    It makes one change for each document that differs. It shows the differences, and lets the server check all changes before it makes
    any. Then it sends the updates, in batches, and after them the deletions, each on condition that the document is still as it was read.
    If one fails, it sends nothing more, and shows what was done and what was not; run it again to complete it. Ends with exit code 0 if
    all is as declared, 8 if only a part was done, otherwise with the code of the failed change.

    \b
    Examples:
      topicpolicies apply -f policies.yaml
      topicpolicies apply -f policies.yaml \\
          --prune --reason "release 12" --output json
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    with reporting(chosen.output, chosen.server), chosen.client() as client:
        _check_files(file, topics)
        with waiting(chosen, _COMPARING):
            planned = _plan(client, chosen, load(file), prune=prune, topics=topics)
        if chosen.json:
            applied = make(client, planned, actor=chosen.actor, reason=chosen.reason)
        else:
            _show(planned, "to be changed")
            applied = make(client, planned, actor=chosen.actor, reason=chosen.reason, report=_report_done)
    if chosen.json:
        json_forms.write(_json(planned, applied))
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
    namespaces: Annotated[list[str], typer.Argument(metavar="NAMESPACE...", help="Namespaces: tenant/namespace.")],
    scope: Annotated[ScopeNames, typer.Option("--scope", help="Which documents.")] = ScopeNames.BOTH,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", dir_okay=False, help="The file to write; by default, and with -, standard output.")
    ] = None,
) -> None:
    """Write a file that declares the present documents.

    The file is for plan and apply. With --output json it is JSON, which they read too.

    \b
    Examples:
      topicpolicies export public/default > policies.yaml
      topicpolicies export public/default public/payments -f policies.yaml
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    with reporting(chosen.output, chosen.server), chosen.client() as client:
        with waiting(chosen):
            documents = [document for namespace in namespaces for document in client.list(namespace, scopes=scope.scopes)]
        text = (export_json if chosen.json else export)(documents, dict.fromkeys(namespaces))
        if file is not None and file != STANDARD_OUTPUT:
            write_text(file, text)
            return
    typer.echo(text.encode(), nl=False)  # UTF-8, as plan and apply read it, whatever the locale


def _plan(client: Client, chosen: Settings, declared: Declared, *, prune: bool, topics: Path | None) -> list[Planned]:
    """Returns the steps that would change something, all of which the server accepts.

    Raises:
        typer.Exit: the server refuses some steps; all refusals were reported.
    """
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
        style = "red" if each.step.deletes else "bold"
        console().print(Text(f"{'delete' if each.step.deletes else 'change'}  {_title(each.step)}", style=style))
        if differences := each.differences:
            told = console()
            told.print(show(differences, told))
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
        typer.echo(json_forms.dumps({"error": {"code": code, "reason": "REFUSED", "message": message, "refused": told}}), err=True)
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
