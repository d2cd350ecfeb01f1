"""The commands about declared policies: plan, apply, export."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.text import Text

from topicpolicies import (
    REDACTED,
    Client,
    Document,
    Options,
    OutcomeUnknown,
    TopicPolicies,
    TopicPoliciesError,
    Update,
    UpdateOutcome,
    Violation,
)
from topicpolicies.errors import invalid
from topicpolicies.masks import parse_path

from ..core.errors import PolicyError
from ..core.names import parse_topic
from . import json_forms
from .declared import Declared, export, load
from .differences import Difference, between, show
from .exits import ExitCode, error_json, exit_code, reporting, tell
from .planning import Key, Step, steps, topics_of
from .rendering import console, printable
from .settings import Output, ScopeNames, Settings, settings

File = Annotated[Path, typer.Option("--file", "-f", metavar="FILE.yaml", dir_okay=False, help="The declared policies.")]
Prune = Annotated[
    bool,
    typer.Option("--prune", help="Also clear settings that nobody declares, and delete undeclared documents in namespaces:."),
]
Topics = Annotated[
    Path | None,
    typer.Option("--topics", metavar="FILE", help="Further topics that patterns may match, one in a line; - is standard input."),
]


class Planned(NamedTuple):
    """A step that the server found valid."""

    step: Step
    after: TopicPolicies | None
    """The document as it will be; None: there will be none."""

    @property
    def differences(self) -> list[Difference]:
        """What will change. A secret that is replaced looks the same before and after."""
        found = between(self.step.document.policies, self.after)
        return found or [Difference(parse_path(path), REDACTED, REDACTED) for path in self.step.mask]

    def json(self) -> dict[str, Any]:
        """For programs."""
        document = self.step.document
        return {
            "topic": document.topic,
            "scope": document.scope.name,
            "version": document.version,
            "action": "delete" if self.step.deletes else "update",
            "update_mask": list(self.step.mask),
            "differences": [each.json() for each in self.differences],
        }


class Invalid(NamedTuple):
    """A step that the server refuses."""

    step: Step
    error: TopicPoliciesError


def plan(context: typer.Context, file: File, prune: Prune = False, topics: Topics = None) -> None:
    """Show what apply would change, and whether the server would take it. Nothing is written.

    Ends with exit code 0 if there is nothing to change, 7 if there is, 2 if the file is wrong or the server refuses a part of it.

    \b
    Examples:
      topicpolicies plan -f policies.yaml
      topicpolicies plan -f policies.yaml --prune --output json
      pulsar-admin topics list public/default | topicpolicies plan -f policies.yaml --topics -
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    with reporting(chosen.output, chosen.server), chosen.client() as client:
        planned = _plan(client, chosen, load(file), prune=prune, topics=topics)
    if chosen.json:
        json_forms.write({"steps": [each.json() for each in planned]})
    else:
        _show(planned)
    if planned:
        raise typer.Exit(ExitCode.DIFFERENT)


def apply(context: typer.Context, file: File, prune: Prune = False, topics: Topics = None) -> None:
    """Make documents as they are declared: one update for each that is not.

    Shows the difference, and has everything checked before anything is sent. Then it sends one update after the other, each on condition
    that the document is still as it was read. If one fails, it stops, and says what was done and what was not; run it again to complete it.
    Ends with exit code 0 if all is as declared, 8 if only a part was done, otherwise as the failed update would.

    \b
    Examples:
      topicpolicies apply -f policies.yaml
      topicpolicies apply -f policies.yaml --prune --output json
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    with reporting(chosen.output, chosen.server), chosen.client() as client:
        planned = _plan(client, chosen, load(file), prune=prune, topics=topics)
        if not chosen.json:
            _show(planned)
        done, failure = _send(client, chosen, planned)
    rest = planned[len(done) :]
    if chosen.json:
        told: dict[str, Any] = {"done": [_named(each) | {"version": version} for each, version in zip(planned, done, strict=False)]}
        if failure is not None:
            told |= {"failed": _named(rest[0]) | {"error": error_json(failure)}, "not_sent": [_named(each) for each in rest[1:]]}
        json_forms.write(told)
    elif failure is not None:
        _tell_failure(planned, done, failure)
    elif planned:
        typer.echo(f"{len(done)} document{'' if len(done) == 1 else 's'} changed", err=True)
    if failure is not None:
        raise typer.Exit(ExitCode.HALF_DONE if done or isinstance(failure, OutcomeUnknown) else exit_code(failure))


def export_(
    context: typer.Context,
    namespaces: Annotated[list[str], typer.Argument(metavar="NAMESPACE...", help="Namespaces: tenant/namespace.")],
    scope: Annotated[ScopeNames, typer.Option("--scope", help="Which documents.")] = ScopeNames.BOTH,
    file: Annotated[Path | None, typer.Option("--file", "-f", dir_okay=False, help="Where to write; by default standard output.")] = None,
) -> None:
    """Write the file that declares what is there now, for plan and apply.

    \b
    Examples:
      topicpolicies export public/default > policies.yaml
      topicpolicies export public/default public/payments -f policies.yaml
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    with reporting(chosen.output, chosen.server), chosen.client() as client:
        documents = [document for namespace in namespaces for document in client.list(namespace, scopes=scope.scopes)]
        text = export(documents, dict.fromkeys(namespaces))
        if file is not None:
            file.write_text(text, encoding="utf-8")
    if file is None:
        typer.echo(text, nl=False)


def _plan(client: Client, chosen: Settings, declared: Declared, *, prune: bool, topics: Path | None) -> list[Planned]:
    """The steps that would change something, all of them found valid.

    Raises:
        typer.Exit: the server refuses some; all of that was told.
    """
    wanted = [*(each.namespace for each in declared.declarations), *(declared.namespaces if prune else ())]
    documents: dict[Key, Document] = {}
    for namespace in dict.fromkeys(wanted):
        documents |= {(each.topic, each.scope): each for each in client.list(namespace)}
    by_key = topics_of(declared, [*(topic for topic, _ in documents), *_listed(topics)])
    for topic, scope in by_key:
        if (topic, scope) not in documents:
            documents[topic, scope] = client.get(topic, scope=scope)
    todo = steps(by_key, documents, prune=declared.namespaces if prune else None)
    planned: list[Planned] = []
    refused: list[Invalid] = []
    for outcome in _validated(client, todo):
        if isinstance(outcome, Invalid):
            refused.append(outcome)
        elif outcome is not None:
            planned.append(outcome)
    if refused:
        _tell_refused(refused, chosen)
        raise typer.Exit(exit_code(refused[0].error))
    return planned


def _listed(path: Path | None) -> Iterator[str]:
    """The full names of the topics in a file; those of partitions mean their topic."""
    if path is None:
        return
    lines = sys.stdin.read().splitlines() if str(path) == "-" else path.read_text(encoding="utf-8").splitlines()
    for line in lines:
        name = line.strip().strip('"')
        if name:
            try:
                yield str(parse_topic(name))
            except PolicyError as error:
                raise invalid(error.reason, Violation(str(path), error.reason, error.message)) from None


def _validated(client: Client, todo: Iterable[Step]) -> Iterator[Planned | Invalid | None]:
    """What the server says of each step; None: it would change nothing."""
    todo = list(todo)
    updates = [step for step in todo if not step.deletes]
    requests = (_update(step, validate_only=True) for step in updates)
    answers = {settled.sequence: settled for settled in client.update_many(requests)}
    for number, step in enumerate(updates):
        settled = answers[number]
        if settled.error is not None:
            yield Invalid(step, settled.error)
        elif settled.unwrap().outcome is not UpdateOutcome.UNCHANGED:
            yield Planned(step, settled.unwrap().policies)
        else:
            yield None
    yield from (Planned(step, None) for step in todo if step.deletes)


def _update(step: Step, *, validate_only: bool = False) -> Update:
    document = step.document
    options = Options(mask=step.mask, scope=document.scope, etag=document.version, validate_only=validate_only)
    return Update(document.topic, step.values, options)


def _send(client: Client, chosen: Settings, planned: Iterable[Planned]) -> tuple[list[str], TopicPoliciesError | None]:
    """Does one step after the other; the versions that were made, and what stopped it."""
    done: list[str] = []
    for each in planned:
        document = each.step.document
        try:
            if each.step.deletes:
                deletion = client.delete(document.topic, scopes={document.scope: document.version}).raise_for_errors()
                version = deletion.scopes[document.scope].version
            else:
                update = _update(each.step)
                options = update.options
                version = client.update(document.topic, each.step.values, mask=options.mask, scope=options.scope, etag=options.etag).version
        except TopicPoliciesError as error:
            return done, error
        done.append(version)
        if not chosen.json:
            typer.echo(f"{'deleted' if each.step.deletes else 'changed'}  {_title(each.step)}  version {version}")
    return done, None


def _show(planned: Iterable[Planned]) -> None:
    count = 0
    for each in planned:
        count += 1
        style = "red" if each.step.deletes else "bold"
        console().print(Text(f"{'delete' if each.step.deletes else 'change'}  {_title(each.step)}", style=style))
        if each.differences:
            console().print(show(each.differences))
    if not count:
        typer.echo("Everything is as declared.", err=True)
    else:
        typer.echo(f"{count} document{' is' if count == 1 else 's are'} not as declared.", err=True)


def _tell_refused(steps_refused: Iterable[Invalid], chosen: Settings) -> None:
    """Everything that the server refuses, and that nothing was sent."""
    if chosen.json:
        told = [{"topic": step.key[0], "scope": step.key[1].name, "error": error_json(error)} for step, error in steps_refused]
        typer.echo(json_forms.dumps({"error": {"code": "INVALID_ARGUMENT", "reason": "REFUSED", "refused": told}}), err=True)
        return
    for step, error in steps_refused:
        typer.echo(f"refused  {_title(step)}", err=True)
        tell(error, Output.TABLE)
    typer.echo("Nothing was changed.", err=True)


def _tell_failure(planned: list[Planned], done: list[str], failure: TopicPoliciesError) -> None:
    failed = planned[len(done)]
    unknown = isinstance(failure, OutcomeUnknown)
    typer.echo(f"{'unknown' if unknown else 'failed'}   {_title(failed.step)}", err=True)
    tell(failure, Output.TABLE)
    for each in planned[len(done) + 1 :]:
        typer.echo(f"not sent  {_title(each.step)}", err=True)
    rest = len(planned) - len(done) - 1
    typer.echo(f"{len(done)} done, 1 {'unknown' if unknown else 'failed'}, {rest} not sent: apply again to complete it.", err=True)


def _title(step: Step) -> str:
    return f"{printable(step.document.topic)}  {step.document.scope.name}"


def _named(planned: Planned) -> dict[str, Any]:
    topic, scope = planned.step.key
    return {"topic": topic, "scope": scope.name}
