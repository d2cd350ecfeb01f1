"""Declared policies: the commands plan, apply and export; and revert, which makes a document what it was in the same way.

The server checks all steps (``declared/steps``); then they are sent in batches, the deletions last.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated

import typer
from grpc import StatusCode

from topicpolicies import (
    CHANGE_OUTCOME_UNCHANGED,
    Client,
    FailedPrecondition,
    OutcomeUnknown,
    PermissionDenied,
    PreconditionFailed,
    TopicPoliciesError,
    Violation,
)
from topicpolicies.masks import paths_between
from topicpolicies.names import namespace_of
from topicpolicies.v1.history_pb2 import HistoryOutcome

from ..core.errors import PolicyError
from ..core.names import full_topic, parse_topic
from ..declared.files import STANDARD_INPUT, STANDARD_OUTPUT, Declaration, Declared, load, name_of, read_text, wrong
from ..declared.steps import Step, owned_by_others, steps, topics_of
from ..declared.values import policies_of
from .calls import calling
from .exits import ExitCode, deferring, error_json, exit_code, report
from .globals import Globals, OneScope, Scopes, Topic, full_namespace, scope_of, scopes_of
from .history import parse_moment, read_at
from .rendering import declaring, show_differences

if TYPE_CHECKING:
    from .broker_client import BrokerClient

BATCH = 100
"""The changes of one batch. Up to this many may still be made after one has failed."""


def validated(client: Client | BrokerClient, todo: Sequence[Step]) -> list[Step]:
    """Has the server check steps. Returns them, with ``after`` or ``error``, without those that would change nothing."""
    kept = []
    for step, (change, outcome) in zip(todo, client.batch(each.request(validate_only=True) for each in todo), strict=True):
        answer = outcome
        if not isinstance(answer, TopicPoliciesError) and not answer.HasField("document"):
            _, answer = next(iter(client.batch([change])))  # the answer to the batch had no room for the document
        if isinstance(answer, TopicPoliciesError):
            step.error = answer
        elif answer.outcome == CHANGE_OUTCOME_UNCHANGED:
            continue
        elif not step.deletes:
            step.after = policies_of(answer.document)
        kept.append(step)
    return kept


def make(client: Client | BrokerClient, planned: Sequence[Step], chosen: Globals, owner: str = "") -> int:
    """Sends the steps: updates first, then deletions. Nothing more is sent once one has failed, or after an interrupt.

    A second interrupt ends the wait for the answers of the batch that was sent; what was not answered has failed with ``OutcomeUnknown``.

    Returns:
        the exit code of an interrupted command, if an interrupt kept steps from being sent or answered; else 0.
    """
    waiting_for: list[tuple[Step, str]] = []
    in_order = sorted(planned, key=lambda each: each.deletes)
    with deferring(lambda: None) as asked:
        try:
            while in_order and not asked() and all(each.error is None for each in planned):
                batch = [each for each in in_order[:BATCH] if each.deletes is in_order[0].deletes]
                in_order = in_order[len(batch) :]
                changes = [each.request(reason=chosen.reason, owner=owner) for each in batch]
                waiting_for = [(each, change.request_id) for each, change in zip(batch, changes, strict=True)]
                for _, outcome in client.batch(changes):
                    step, _ = waiting_for.pop(0)
                    if isinstance(outcome, TopicPoliciesError):
                        step.error = outcome
                        continue
                    step.version = outcome.version
                    if not chosen.for_programs:
                        typer.echo(f"{'deleted' if step.deletes else 'changed'}  {step.title}  version {step.version}")
        except KeyboardInterrupt:
            for step, request_id in waiting_for:
                told = "The command was interrupted before the answer came."
                step.error = OutcomeUnknown(told, code=StatusCode.CANCELLED, request_id=request_id)
    return 0 if all(each.version for each in planned) else asked()


Files = Annotated[
    list[FilePath] | None,
    typer.Argument(
        metavar="FILE...", exists=True, allow_dash=True, help="The declared policies: files, folders of files, or - for standard input."
    ),
]
MoreFiles = Annotated[
    list[FilePath] | None, typer.Option("--file", "-f", metavar="FILE", exists=True, allow_dash=True, help="The same; can be repeated.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show and check everything, and write nothing.")]
Prune = Annotated[bool, typer.Option("--prune", help="Also clear undeclared settings, and delete undeclared documents of namespaces:.")]
Topics = Annotated[
    FilePath | None,
    typer.Option(
        "--topics",
        metavar="FILE",
        exists=True,
        allow_dash=True,
        help="Further topics that patterns may match, one per line; - is standard input.",
    ),
]

AdminUrl = Annotated[
    str | None,
    typer.Option("--admin-url", metavar="http://HOST:PORT", help="The brokers' admin API, which is called in place of a server."),
]
AdminToken = Annotated[FilePath | None, typer.Option("--admin-token-file", metavar="FILE", help="A file with the token for --admin-url.")]


def plan(
    chosen: Globals,
    files: Files = None,
    more: MoreFiles = None,
    prune: Prune = False,
    topics: Topics = None,
    admin_url: AdminUrl = None,
    admin_token: AdminToken = None,
) -> None:
    """Show what apply would change, and write nothing.

    The server also checks each change. Ends with exit code 0 if there is nothing to change, 7 if there is (2 with --detailed-exitcode),
    2 if the file is wrong or the server refuses a part of it (1 with --detailed-exitcode).

    \b
    Examples:
      topicpolicies plan policies.yaml
      topicpolicies plan policies.yaml --prune --output json
      pulsar-admin topics list public/default |
          topicpolicies plan policies.yaml --topics -
    """  # noqa: D301 - "\b" keeps the lines
    declared = _load(chosen, [*(files or ()), *(more or ())], topics)
    with _client(chosen, admin_url, admin_token, declared.declarations, everything=prune) as client:
        planned = _plan(client, chosen, declared, topics, prune=prune)
    sound = [each for each in planned if each.error is None]
    if sound or not planned:
        _show_plan(chosen, sound, "as declared")
    if accepted(planned, chosen):
        raise typer.Exit(ExitCode.DIFFERENT)


def apply(  # noqa: PLR0913, PLR0917 - options
    chosen: Globals,
    files: Files = None,
    more: MoreFiles = None,
    prune: Prune = False,
    topics: Topics = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    force: Annotated[bool, typer.Option("--force", help="Also change what another owner declared.")] = False,
    admin_url: AdminUrl = None,
    admin_token: AdminToken = None,
) -> None:
    """Change documents to what the file declares.

    It makes one change for each document that differs. It lets the server check all changes, shows the differences, and asks, if you are at
    a terminal; without one, as in a script or a pipe, it does not ask. Then it sends the updates, in batches, and after them the deletions,
    each on condition that the document is still as it was read. If one fails, it sends nothing more, and shows what was done and what was
    not; run it again to complete it. Ends with exit code 0 if all is as declared, 8 if only a part was done, otherwise with the code of the
    failed change.

    \b
    Examples:
      topicpolicies apply policies.yaml
      topicpolicies apply policies/ --dry-run
      topicpolicies export public/default | topicpolicies apply - --server other:6680
      topicpolicies apply policies.yaml --admin-url http://broker:8080
      topicpolicies apply policies.yaml \\
          --prune --yes --reason "release 12" --output json
    """  # noqa: D301 - "\b" keeps the lines
    declared = _load(chosen, [*(files or ()), *(more or ())], topics)
    with _client(chosen, admin_url, admin_token, declared.declarations, everything=prune) as client:
        planned = _plan(client, chosen, declared, topics, prune=prune, force=force)
        carry_out(client, chosen, accepted(planned, chosen), "as declared", yes=yes, dry_run=dry_run, owner=declared.owner)


def carry_out(
    client: Client | BrokerClient, chosen: Globals, planned: Sequence[Step], wanted: str, *, yes: bool, dry_run: bool, owner: str = ""
) -> None:
    """Shows steps, asks, sends them, and reports what became of them.

    ``wanted``: how documents are to be, for people. ``owner``: whose declaration this is.
    """
    if dry_run or not chosen.for_programs:
        _show_plan(chosen, planned, wanted)
    if dry_run:
        return
    if planned and not yes and sys.stdin.isatty() and sys.stdout.isatty():
        typer.confirm("Make these changes?", abort=True)
    interrupted = make(client, planned, chosen, owner)
    by_state = {state: [each for each in planned if each.state == state] for state in ("done", "failed", "unknown", "not sent")}
    failed = [each.error for each in planned if each.error is not None]
    if not chosen.shown(
        {
            "done": [each.named | {"version": each.version} for each in by_state["done"]],
            "failed": [each.named | {"error": error_json(each.error, chosen)} for each in planned if each.error is not None],
            "not_sent": [each.named for each in by_state["not sent"]],
        }
    ):
        for each in planned:
            if each.state != "done":
                typer.echo(f"{each.state:<8}  {each.title}", err=True)
            if each.error is not None:
                report(error_json(each.error, chosen), json=False)
        if planned:
            counts = ", ".join(f"{len(found)} {state}" for state, found in by_state.items() if found)
            finished = len(by_state["done"]) == len(planned)
            typer.echo(f"{_documents(len(planned))} changed" if finished else f"{counts}: apply again to complete it.", err=True)
    if interrupted:
        raise typer.Exit(interrupted)
    if failed:
        partly = by_state["done"] or by_state["unknown"]
        raise typer.Exit(ExitCode.HALF_DONE if partly else exit_code(failed[0]))


def revert(
    chosen: Globals,
    topic: Topic,
    to: Annotated[str, typer.Option("--to", metavar="TIME|VERSION", help="The moment whose document is wanted, as in get --as-of.")],
    scope: OneScope = "local",
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Make the policies of one topic what they were at a moment.

    It lets the server check the change, shows the differences, and asks at a terminal; elsewhere it goes ahead. The change names only what
    differs, and is made on condition that the document is still as it was read. If there was no document then, the present one is deleted.
    Secrets stay as they are now. The server needs a history that reaches back to the moment.

    \b
    Examples:
      topicpolicies history public/default/orders
      topicpolicies revert public/default/orders --to 15
      topicpolicies revert public/default/orders --to 2h-ago --dry-run
    """  # noqa: D301 - "\b" keeps the lines
    moment = parse_moment(to, "--to")
    with calling(chosen) as client:
        then = read_at(client, topic, scope_of(scope), moment)
        present = client.get(topic, scope=scope_of(scope))
        mask = tuple(sorted(paths_between(present.policies, then.policies))) if then.HasField("policies") else ()
        there = then.HasField("policies"), present.HasField("policies")
        planned = validated(client, [Step(present, then.policies, mask)] if mask or there == (False, True) else [])
        carry_out(client, chosen, accepted(planned, chosen), "as it was then", yes=yes, dry_run=dry_run)


def export_(
    chosen: Globals,
    namespaces: Annotated[
        list[str], typer.Argument(metavar="NAMESPACE...", help="tenant/namespace; a name alone is of the tenant public.")
    ],
    scope: Scopes = "both",
    file: Annotated[
        FilePath | None,
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
    with _client(chosen, admin_url, admin_token) as client:
        namespaces = list(map(full_namespace, namespaces))
        documents = [document for namespace in namespaces for document in client.list(namespace, scopes=scopes_of(scope))]
        if not documents:
            chosen.note(f"There are no documents in {', '.join(namespaces)}.")
        text = declaring(documents, dict.fromkeys(namespaces), as_json=chosen.json)
        if file is not None and file != STANDARD_OUTPUT:
            file.write_text(text, encoding="utf-8")
            chosen.note(f"wrote {file}: {_documents(len(documents))}")
            return
    typer.echo(text.encode(), nl=False)  # UTF-8, as plan and apply read it, whatever the locale


def _client(
    chosen: Globals,
    admin_url: str | None,
    token_file: FilePath | None,
    declarations: Sequence[Declaration] = (),
    *,
    everything: bool = True,
) -> AbstractContextManager[Client | BrokerClient]:
    """Returns the context of a client of the server or, with a URL, of the brokers' admin API, for declarations or for ``everything``."""
    if admin_url is None:
        return calling(chosen)
    from .broker_client import calling_brokers  # noqa: PLC0415 - what it needs is installed for servers only

    return calling_brokers(chosen, admin_url, token_file, declarations, everything=everything)


def _load(chosen: Globals, files: Sequence[FilePath], topics: FilePath | None) -> Declared:
    if not files:
        raise typer.BadParameter("Name a file of declared policies; topicpolicies export NAMESPACE writes one.", param_hint="FILE")
    if [*files, topics].count(STANDARD_INPUT) > 1:
        raise typer.BadParameter("Only one file can be standard input.", param_hint="--topics")
    declared = load(files)
    if declared.constraints and not declared.declarations:
        chosen.note("Only constraints are declared: serve --declared keeps them, and plan and apply change nothing.")
    return declared


def _plan(
    client: Client | BrokerClient, chosen: Globals, declared: Declared, topics: FilePath | None, *, prune: bool, force: bool = False
) -> list[Step]:
    """Returns the steps that would change something, with an error those that the server or another owner does not accept."""
    wanted = [*(namespace_of(each.topic) for each in declared.declarations), *(declared.namespaces if prune else ())]
    documents = {(each.topic, each.scope): each for namespace in dict.fromkeys(wanted) for each in client.list(namespace)}
    by_key = topics_of(declared, [*(topic for topic, _ in documents), *_listed(topics)])
    for topic, scope in by_key.keys() - documents.keys():
        documents[topic, scope] = client.get(topic, scope=scope)
    planned = validated(client, steps(by_key, documents, prune=declared.namespaces if prune else None))
    matched = {each.topic for found in by_key.values() for each in found}
    for pattern in dict.fromkeys(each.topic for each in declared.declarations if each.topic not in matched):
        chosen.note(f"{pattern} matches no topic that is known.")
    if not force and isinstance(client, Client):
        _check_owners(client, chosen, planned, declared.owner)
    return planned


def accepted(planned: list[Step], chosen: Globals) -> list[Step]:
    """Returns steps that were checked; if some were refused, reports all refusals and ends the command with the code of the first."""
    refused = [(each, each.error) for each in planned if each.error is not None]
    if not refused:
        return planned
    if chosen.json:
        told = [each.named | {"error": error_json(error, chosen)} for each, error in refused]
        message = f"The server refuses {len(told)} change{'' if len(told) == 1 else 's'}; nothing was changed."
        report({"code": refused[0][1].code.name, "reason": "REFUSED", "message": message, "refused": told}, json=True)
    else:
        for each, error in refused:
            typer.echo(f"refused  {each.title}", err=True)
            report(error_json(error, chosen), json=False)
        typer.echo("Nothing was changed.", err=True)
    raise typer.Exit(exit_code(refused[0][1]))


def _check_owners(client: Client, chosen: Globals, planned: Sequence[Step], owner: str) -> None:
    """Gives each step that would change what another owner declared an error, as far as the server's history tells."""
    unknown: set[str] = set()
    for step in planned:
        namespace = namespace_of(step.document.topic)
        if not step.document.HasField("policies") or namespace in unknown:
            continue
        try:
            others = owned_by_others(step, owner, _changes(client, step))
        except (PermissionDenied, FailedPrecondition) as error:
            unknown.add(namespace)
            if owner or error.reason != "HISTORY_OFF":
                chosen.note(f"What other owners have declared in {namespace} is not known: {error.message}")
            continue
        if step.error is None and others:
            violations = [Violation(path, "OWNED_BY_OTHER", f"{other} declared it.") for path, other in others.items()]
            told = ", ".join(f"{other} declared {path}" for path, other in others.items())
            message = f"{told}; apply --force changes it all the same."
            step.error = PreconditionFailed(message, code=StatusCode.ABORTED, reason="OWNED_BY_OTHER", violations=violations)


def _changes(client: Client, step: Step) -> Iterator[tuple[str, Sequence[str], bool]]:
    """Yields the events that have changed the document of a step, for ``owned_by_others``."""
    for page in client.history_pages(topic=step.document.topic, scopes=(step.document.scope,), page_size=1_000):
        for entry in page.entries:
            if entry.outcome == HistoryOutcome.HISTORY_OUTCOME_APPLIED:
                yield entry.origin.owner, entry.origin.update_mask.paths, entry.document.HasField("policies")


def _listed(path: FilePath | None) -> Iterator[str]:
    """Yields the full names of the topics in a file. A partition stands for its topic."""
    if path is None:
        return
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if name := line.strip().strip('"'):
            try:
                yield str(parse_topic(full_topic(name)))
            except PolicyError as error:
                raise wrong(Violation(f"{name_of(path)}:{number}", "MALFORMED_NAME", error.message)) from None


def _show_plan(chosen: Globals, planned: Sequence[Step], wanted: str) -> None:
    if chosen.shown({"steps": [each.json() for each in planned]}):
        return
    for each in planned:
        title = f"{'delete' if each.deletes else 'change'}  {each.title}"
        typer.secho(title, fg="red" if each.deletes else None, bold=not each.deletes)
        show_differences(each.differences())
    verb = "is" if len(planned) == 1 else "are"
    typer.echo(f"{_documents(len(planned))} {verb} not {wanted}." if planned else f"Everything is {wanted}.", err=True)


def _documents(count: int) -> str:
    return f"{count} document{'' if count == 1 else 's'}"
