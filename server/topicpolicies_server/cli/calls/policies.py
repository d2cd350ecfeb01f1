"""The commands about documents: get, update, delete, list."""

from __future__ import annotations

from typing import Annotated

import typer

from topicpolicies import ChangeOutcome, ChangeResult, PolicyDocument, Violation
from topicpolicies.requests import ChangeOptions

from ...escaping import printable
from ..exits import ExitCode, reporting
from ..files import wrong
from ..settings import ScopeName, ScopeNames, Settings, settings
from ..showing import json_forms
from ..showing.fitting import Row, settings_rows
from ..showing.freshness import note_unconfirmed
from ..showing.listing import listed
from ..showing.rendering import compact, console, differences, lines, policies_of, scope_name
from ..showing.waiting import waiting
from .assignments import parse
from .moments import parse_moment, read_at

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic: persistent://tenant/namespace/topic, or without persistent://.")]
OneScope = Annotated[ScopeName, typer.Option("--scope", help="The document of this cluster, or the one of all clusters.")]
IfVersion = Annotated[str, typer.Option("--if-version", metavar="VERSION", help="The version that the document must have.")]
ValidateOnly = Annotated[bool, typer.Option("--validate-only", help="Check everything and write nothing.")]
IncludePrevious = Annotated[bool, typer.Option("--include-previous", help="Show the document before the change too.")]
RequestId = Annotated[str, typer.Option("--request-id", help="A UUID of your own, so that the command can be repeated safely.")]

_LOCAL = ScopeNames.LOCAL
_OUTCOMES = {
    ChangeOutcome.CHANGE_OUTCOME_APPLIED: "Applied",
    ChangeOutcome.CHANGE_OUTCOME_UNCHANGED: "Unchanged: the document already was like this",
    ChangeOutcome.CHANGE_OUTCOME_SKIPPED: "Skipped: there is no document",
    ChangeOutcome.CHANGE_OUTCOME_WOULD_APPLY: "Would be applied; nothing was written",
}
_DELETE_OUTCOMES = {
    ChangeOutcome.CHANGE_OUTCOME_APPLIED: "deleted",
    ChangeOutcome.CHANGE_OUTCOME_UNCHANGED: "there was no document",
    ChangeOutcome.CHANGE_OUTCOME_WOULD_APPLY: "would be deleted; nothing was written",
}


def get(
    context: typer.Context,
    topic: Topic,
    scope: Annotated[ScopeNames, typer.Option("--scope", help="The document of this cluster, of all clusters, or both.")] = _LOCAL,
    as_of: Annotated[
        str, typer.Option("--as-of", metavar="TIME|VERSION", help="The document as it was then, from the server's history.")
    ] = "",
) -> None:
    """Show the policies of one topic.

    Ends with exit code 4 if there is no document. Times are written as 2026-03-01T12:00 (local, or with a zone), 2h-ago, 7d-ago. A
    version belongs to a single scope.

    \b
    Examples:
      topicpolicies get persistent://public/default/orders
      topicpolicies get public/default/orders --as-of 1d-ago
      topicpolicies get public/default/orders --scope both --output json
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    moment = parse_moment(as_of, "--as-of") if as_of else None
    if isinstance(moment, str) and scope is ScopeNames.BOTH:
        raise typer.BadParameter("A version belongs to one scope.", param_hint="--as-of")
    with reporting(chosen.output, chosen.server), chosen.client() as client, waiting(chosen):
        note_unconfirmed(client, json=chosen.json)
        documents = [read_at(client, topic, each, moment) for each in scope.scopes]
    if chosen.json:
        both = scope is ScopeNames.BOTH
        json_forms.write(json_forms.of_documents(documents) if both else json_forms.of_message(documents[0]))
    else:
        for document in documents:
            _show(document)
    if not any(document.HasField("policies") for document in documents):
        raise typer.Exit(ExitCode.NOT_FOUND)


def update(  # noqa: PLR0913, PLR0917 - options
    context: typer.Context,
    topic: Topic,
    assignments: Annotated[
        list[str] | None, typer.Argument(metavar="[PATH=VALUE]...", help="What to set; PATH+=VALUE and PATH-=VALUE for elements of lists.")
    ] = None,
    unset: Annotated[list[str] | None, typer.Option("--unset", metavar="PATH", help="What to clear; can be repeated.")] = None,
    mask: Annotated[
        list[str] | None,
        typer.Option("--mask", metavar="PATH", help="What to replace as a whole; * alone: the document. Can be repeated."),
    ] = None,
    scope: OneScope = ScopeName.LOCAL,
    if_version: IfVersion = "",
    must_not_exist: Annotated[bool, typer.Option("--must-not-exist", help="Fail if there is a document.")] = False,
    skip_if_absent: Annotated[bool, typer.Option("--skip-if-absent", help="Do nothing if there is no document.")] = False,
    validate_only: ValidateOnly = False,
    include_previous: IncludePrevious = False,
    request_id: RequestId = "",
) -> None:
    """Change some settings of one topic, and no others.

    Values are read by the field's type: numbers, true or false, names of enums in any case, lists separated by commas or as JSON, objects
    as JSON. The entry of a map is addressed by its key, in backticks (in quotes for the shell) if it has other characters than letters,
    digits and _.

    In objects and maps only the given leaves and entries change. Lists are replaced. --mask names what is replaced as a whole; then
    everything that is set must be in the mask.

    \b
    Examples:
      topicpolicies update persistent://public/default/t \\
          max_producer_per_topic=5 --unset message_ttl_in_seconds \\
          retention_policies.retention_time_in_minutes=10 \\
          retention_policies.retention_size_in_mb=100
      topicpolicies update public/default/t \\
          subscription_types_enabled=shared,key_shared
      topicpolicies update public/default/t \\
          'subscription_policies.`my-sub`.dispatch_rate.dispatch_throttling_rate_in_msg=10'
      topicpolicies update public/default/t \\
          'publish_rate={"publish_throttling_rate_in_msg": 100}'
      topicpolicies update public/default/t \\
          replication_clusters+=us-east --scope global
      topicpolicies update public/default/t max_producer_per_topic=5 --mask '*'
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    with reporting(chosen.output, chosen.server), chosen.client() as client, waiting(chosen):
        if not assignments and not unset and not mask:
            raise wrong(Violation(topic, "EMPTY_MASK", "Name what to change: PATH=VALUE to set, --unset PATH to clear."))
        if must_not_exist and if_version:
            raise typer.BadParameter("Say this or --if-version, not both.", param_hint="--must-not-exist")
        wanted = parse(assignments or (), unset or ())
        how = _how(
            chosen,
            scope,
            if_version,
            request_id,
            validate_only=validate_only,
            include_previous=include_previous,
            must_not_exist=must_not_exist,
        )
        client.server_info()  # fails if there is no server: nothing was sent then
        result = client.update(
            topic,
            wanted.values,
            mask=wanted.mask(mask or ()),
            list_operations=wanted.list_operations,
            skip_if_absent=skip_if_absent,
            **how,
        )
    if chosen.json:
        json_forms.write(json_forms.of_message(result))
    else:
        _show_update(result)


def delete(
    context: typer.Context,
    topic: Topic,
    scope: OneScope = ScopeName.LOCAL,
    if_version: IfVersion = "",
    validate_only: ValidateOnly = False,
    include_previous: IncludePrevious = False,
    request_id: RequestId = "",
) -> None:
    """Delete one document of one topic.

    Deleting an absent document is not an error.

    \b
    Examples:
      topicpolicies delete persistent://public/default/orders
      topicpolicies delete public/default/orders \\
          --scope global --reason "moved to the namespace"
      topicpolicies delete public/default/orders --if-version 12
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    with reporting(chosen.output, chosen.server), chosen.client() as client, waiting(chosen):
        how = _how(chosen, scope, if_version, request_id, validate_only=validate_only, include_previous=include_previous)
        client.server_info()  # fails if there is no server: nothing was sent then
        result = client.delete(topic, **how)
    if chosen.json:
        json_forms.write(json_forms.of_message(result))
    else:
        _show_deletion(scope, result)


def list_(
    context: typer.Context,
    namespace: Annotated[str, typer.Argument(metavar="NAMESPACE", help="The namespace: tenant/namespace.")],
    scope: Annotated[ScopeNames, typer.Option("--scope", help="Which documents.")] = ScopeNames.BOTH,
) -> None:
    """List the documents of a namespace, by topic and scope.

    \b
    Examples:
      topicpolicies list public/default
      topicpolicies list public/default --scope global --output json
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    with reporting(chosen.output, chosen.server), chosen.client() as client, waiting(chosen):
        note_unconfirmed(client, json=chosen.json)
        pages = list(client.list_pages(namespace, scopes=scope.scopes, page_size=1_000))
    documents = [document for page in pages for document in page.documents]
    if chosen.json:
        json_forms.write(json_forms.of_documents(documents) | {"resume_token": pages[0].resume_token})
        return
    listed(documents, console())
    typer.echo(f"{len(documents)} document{'' if len(documents) == 1 else 's'} in {printable(namespace)}", err=True)


def _how(
    chosen: Settings,
    scope: ScopeName,
    if_version: str,
    request_id: str,
    *,
    validate_only: bool,
    include_previous: bool,
    must_not_exist: bool = False,
) -> ChangeOptions:
    """Returns the options that an update and a deletion have in common."""
    return {
        "scope": scope.scope,
        "version": if_version or None,
        "exists": False if must_not_exist else None,
        "validate_only": validate_only,
        "include_previous": include_previous,
        "request_id": request_id,
        "actor": chosen.actor,
        "reason": chosen.reason,
    }


def _show(document: PolicyDocument) -> None:
    topic, scope = printable(document.topic), scope_name(document)
    if document.HasField("policies"):
        typer.echo(f"{topic}  {scope}  version {document.version}")
        terminal = console()
        rows = (Row(path, (value,)) for path, value in lines(document.policies))
        terminal.print(settings_rows(("setting", "value"), rows, terminal))
    elif document.disabled:
        typer.echo(f"{topic} has no {scope} document: its topic policies are disabled.", err=True)
    else:
        typer.echo(f"{topic} has no {scope} document (version {document.version}).", err=True)


def _show_update(result: ChangeResult) -> None:
    repeated = ", as the first time" if result.replayed else ""
    versions = f"version {result.version}, before {result.previous_version}"
    typer.echo(f"{_OUTCOMES.get(result.outcome, 'Done')}{repeated} ({versions}, request id {result.request_id})")
    if result.document.HasField("policies"):
        if result.HasField("previous"):
            typer.echo(f"Changed: {differences(policies_of(result.previous), result.document.policies)}")
        _show(result.document)


def _show_deletion(scope: ScopeName, result: ChangeResult) -> None:
    repeated = ", as the first time" if result.replayed else ""
    applied = result.outcome == ChangeOutcome.CHANGE_OUTCOME_APPLIED
    deleted = f", before {result.previous_version}" if applied else ""
    typer.echo(f"{scope.name}: {_DELETE_OUTCOMES.get(result.outcome, 'done')}{repeated} (version {result.version}{deleted})")
    if result.previous.HasField("policies"):
        typer.echo(f"Before: {compact(result.previous.policies)}")
