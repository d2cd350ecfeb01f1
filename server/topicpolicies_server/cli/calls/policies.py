"""The commands about documents: get, update, delete, list."""

from __future__ import annotations

from typing import Annotated

import typer

from topicpolicies import ChangeOptions, Client, DeleteOutcome, DeleteResult, Document, Scope, UpdateOutcome, UpdateResult, Violation

from ...escaping import printable
from ..exits import ExitCode, reporting
from ..files import wrong
from ..settings import ScopeName, ScopeNames, Settings, settings
from ..showing import json_forms
from ..showing.fitting import Row, settings_rows
from ..showing.freshness import report_unconfirmed
from ..showing.listing import listed
from ..showing.rendering import compact, console, differences, lines
from ..showing.waiting import waiting
from .assignments import parse
from .moments import Moment, parse_moment, read_at

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic: persistent://tenant/namespace/topic, or without persistent://.")]
OneScope = Annotated[ScopeName, typer.Option("--scope", help="The document of this cluster, or the one of all clusters.")]
Etag = Annotated[str, typer.Option("--etag", metavar="VERSION", help="The version that the document must have.")]
ValidateOnly = Annotated[bool, typer.Option("--validate-only", help="Check everything and write nothing.")]
IncludePrevious = Annotated[bool, typer.Option("--include-previous", help="Show the document before the change too.")]
RequestId = Annotated[str, typer.Option("--request-id", help="A UUID of your own, so that the command can be repeated safely.")]

_LOCAL = ScopeNames.LOCAL
_EMPTY = "EMPTY_MASK"
_CONTRADICTION = "CONTRADICTION"
_OUTCOMES = {
    UpdateOutcome.APPLIED: "Applied",
    UpdateOutcome.UNCHANGED: "Unchanged: the document already was like this",
    UpdateOutcome.SKIPPED: "Skipped: there is no document",
    UpdateOutcome.WOULD_APPLY: "Would be applied; nothing was written",
    UpdateOutcome.UNSPECIFIED: "Done",
}
_DELETE_OUTCOMES = {
    DeleteOutcome.DELETED: "deleted",
    DeleteOutcome.ABSENT: "there was no document",
    DeleteOutcome.WOULD_DELETE: "would be deleted; nothing was written",
    DeleteOutcome.UNSPECIFIED: "done",
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
    with reporting(chosen.output, chosen.server), chosen.client() as client, waiting(chosen):
        documents = _read(client, topic, scope, moment)
    if chosen.json:
        both = scope is ScopeNames.BOTH
        json_forms.write(json_forms.of_documents(documents) if both else json_forms.of_document(documents[0]))
    else:
        for document in documents:
            _show(document)
    report_unconfirmed((document.unconfirmed_since for document in documents), json=chosen.json)
    if not any(document.exists for document in documents):
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
    etag: Etag = "",
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
            raise wrong(_EMPTY, Violation(topic, _EMPTY, "Name what to change: PATH=VALUE to set, --unset PATH to clear."))
        if must_not_exist and skip_if_absent:
            raise wrong(_CONTRADICTION, Violation("--skip-if-absent", _CONTRADICTION, "Say this or --must-not-exist, not both."))
        wanted = parse(assignments or (), unset or ())
        result = client.update(
            topic,
            wanted.values,
            mask=wanted.mask(mask or ()),
            list_operations=wanted.list_operations,
            must_not_exist=must_not_exist,
            skip_if_absent=skip_if_absent,
            **_how(chosen, scope, etag, request_id, validate_only=validate_only, include_previous=include_previous),
        )
    if chosen.json:
        json_forms.write(json_forms.of_update(result))
    else:
        _show_update(result)


def delete(
    context: typer.Context,
    topic: Topic,
    scope: OneScope = ScopeName.LOCAL,
    etag: Etag = "",
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
      topicpolicies delete public/default/orders --etag 12
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    with reporting(chosen.output, chosen.server), chosen.client() as client, waiting(chosen):
        how = _how(chosen, scope, etag, request_id, validate_only=validate_only, include_previous=include_previous)
        result = client.delete(topic, **how)
    if chosen.json:
        json_forms.write(json_forms.of_deletion(result))
    else:
        _show_deletion(scope.scope, result)


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
        listing = client.list(namespace, scopes=scope.scopes)
        documents = list(listing)
    report_unconfirmed([listing.unconfirmed_since, *(document.unconfirmed_since for document in documents)], json=chosen.json)
    if chosen.json:
        json_forms.write(json_forms.of_documents(documents, listing.token.namespaces.get(namespace)))
        return
    listed(documents, console())
    typer.echo(f"{len(documents)} document{'' if len(documents) == 1 else 's'} in {printable(namespace)}", err=True)


def _how(chosen: Settings, scope: ScopeName, etag: str, request_id: str, *, validate_only: bool, include_previous: bool) -> ChangeOptions:
    """Returns the options that an update and a deletion have in common."""
    return {
        "scope": scope.scope,
        "etag": etag,
        "validate_only": validate_only,
        "include_previous": include_previous,
        "request_id": request_id,
        "actor": chosen.actor,
        "reason": chosen.reason,
    }


def _read(client: Client, topic: str, scope: ScopeNames, moment: Moment) -> list[Document]:
    if scope is not ScopeNames.BOTH:
        return [read_at(client, topic, scope.scopes[0], moment)]
    if isinstance(moment, str):
        raise typer.BadParameter("A version belongs to a single scope: give --scope local or --scope global.", param_hint="--as-of")
    return list(client.get_both(topic, as_of_time=moment).values())


def _show(document: Document) -> None:
    if document.policies is not None:
        typer.echo(f"{printable(document.topic)}  {document.scope.name}  version {document.version}")
        terminal = console()
        rows = (Row(path, (value,)) for path, value in lines(document.policies))
        terminal.print(settings_rows(("setting", "value"), rows, terminal))
    elif document.disabled:
        typer.echo(f"{printable(document.topic)} has no {document.scope.name} document: its topic policies are disabled.", err=True)
    else:
        typer.echo(f"{printable(document.topic)} has no {document.scope.name} document (version {document.version}).", err=True)


def _show_update(result: UpdateResult) -> None:
    repeated = ", as the first time" if result.replayed else ""
    versions = f"version {result.version}, before {result.previous_version}"
    typer.echo(f"{_OUTCOMES[result.outcome]}{repeated} ({versions}, request id {result.request_id})")
    if result.document is None:
        return
    if result.previous is not None and result.document.policies is not None:
        typer.echo(f"Changed: {differences(result.previous.policies, result.document.policies)}")
    if result.document.exists:
        _show(result.document)


def _show_deletion(scope: Scope, result: DeleteResult) -> None:
    repeated = ", as the first time" if result.replayed else ""
    deleted = f", before {result.previous_version}" if result.outcome is DeleteOutcome.DELETED else ""
    typer.echo(f"{scope.name}: {_DELETE_OUTCOMES[result.outcome]}{repeated} (version {result.version}{deleted})")
    if result.previous is not None and result.previous.policies is not None:
        typer.echo(f"Before: {compact(result.previous.policies)}")
