"""The commands about documents: get, update, delete, list."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from topicpolicies import DeleteOutcome, Deletion, Document, UpdateOutcome, UpdateResult

from . import json_forms
from .assignments import parse
from .exits import ExitCode, exit_code, reporting, tell
from .moments import parse_moment
from .rendering import compact, console, printable, settings_table
from .settings import Output, ScopeName, ScopeNames, settings

Topic = Annotated[str, typer.Argument(help="The topic: persistent://tenant/namespace/topic, or without persistent://.")]
OneScope = Annotated[ScopeName, typer.Option("--scope", help="The document of this cluster, or the one of all clusters.")]
RequestId = Annotated[str, typer.Option("--request-id", help="A UUID of your own, so that the command can be repeated safely.")]

_OUTCOMES = {
    UpdateOutcome.APPLIED: "Applied",
    UpdateOutcome.UNCHANGED: "Unchanged: the document already was like this",
    UpdateOutcome.SKIPPED: "Skipped: there is no document",
    UpdateOutcome.UNSPECIFIED: "Done",
}


def get(
    context: typer.Context,
    topic: Topic,
    scope: OneScope = ScopeName.LOCAL,
    as_of: Annotated[str, typer.Option("--as-of", metavar="TIME|VERSION", help="As it was then, by the server's history.")] = "",
) -> None:
    """Show the policies of one topic.

    Ends with exit code 4 if there is no document in this scope. Times are as 2026-03-01T12:00 (local, or with a zone), 2h-ago, 7d-ago.

    \b
    Examples:
      topicpolicies get persistent://public/default/orders
      topicpolicies get public/default/orders --as-of 1d-ago
      topicpolicies get public/default/orders --scope global --output json
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    with reporting(chosen.output, chosen.server), chosen.client() as client:
        if as_of:
            document = client.get_as_of(topic, parse_moment(as_of, "--as-of"), scope=scope.scope)
        else:
            document = client.get(topic, scope=scope.scope)
    if chosen.json:
        json_forms.write(json_forms.of_document(document))
    elif document.policies is not None:
        _show(document)
    else:
        typer.echo(f"{printable(document.topic)} has no {document.scope.name} document (version {document.version}).", err=True)
    if not document.exists:
        raise typer.Exit(ExitCode.NOT_FOUND)


def update(  # noqa: PLR0913, PLR0917 - options
    context: typer.Context,
    topic: Topic,
    assignments: Annotated[
        list[str] | None, typer.Argument(metavar="[PATH=VALUE]...", help="What to set; PATH+=VALUE and PATH-=VALUE for elements of lists.")
    ] = None,
    unset: Annotated[list[str] | None, typer.Option("--unset", metavar="PATH", help="What to clear; may be given again.")] = None,
    scope: OneScope = ScopeName.LOCAL,
    etag: Annotated[str, typer.Option("--etag", metavar="VERSION", help="The version that the document must have.")] = "",
    skip_if_absent: Annotated[bool, typer.Option("--skip-if-absent", help="Do nothing when there is no document.")] = False,
    validate_only: Annotated[bool, typer.Option("--validate-only", help="Check everything and write nothing.")] = False,
    request_id: RequestId = "",
) -> None:
    """Change some settings of one topic, and no others.

    Values are read by the field's type: numbers, true or false, names of enums in any case, lists separated by commas or as JSON, objects
    as JSON. The entry of a map is addressed by its key, in backticks (in quotes for the shell) if it has other characters than letters,
    digits and _.

    \b
    Examples:
      topicpolicies update persistent://public/default/t max_producer_per_topic=5 \\
          retention_policies.retention_time_in_minutes=10 retention_policies.retention_size_in_mb=100 \\
          --unset message_ttl_in_seconds
      topicpolicies update public/default/t subscription_types_enabled=shared,key_shared
      topicpolicies update public/default/t \\
          'subscription_policies.`my-sub`.dispatch_rate.dispatch_throttling_rate_in_msg=10'
      topicpolicies update public/default/t 'publish_rate={"publish_throttling_rate_in_msg": 100}'
      topicpolicies update public/default/t replication_clusters+=us-east --scope global
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    with reporting(chosen.output, chosen.server), chosen.client() as client:
        wanted = parse(assignments or (), unset or ())
        result = client.update(
            topic,
            wanted.values,
            scope=scope.scope,
            etag=etag,
            skip_if_absent=skip_if_absent,
            validate_only=validate_only,
            request_id=request_id,
            list_operations=wanted.list_operations,
        )
    if chosen.json:
        json_forms.write(json_forms.of_update(result))
    else:
        _show_update(result, validate_only=validate_only)


def delete(
    context: typer.Context,
    topic: Topic,
    scope: Annotated[ScopeNames, typer.Option("--scope", help="Which documents.")] = ScopeNames.LOCAL,
    etag: Annotated[str, typer.Option("--etag", metavar="VERSION", help="The version that the document must have; for one scope.")] = "",
    request_id: RequestId = "",
) -> None:
    """Delete the documents of one topic.

    That there was none is no error.

    \b
    Examples:
      topicpolicies delete persistent://public/default/orders
      topicpolicies delete public/default/orders --scope both
      topicpolicies delete public/default/orders --etag 12
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    scopes = scope.scopes
    if etag and len(scopes) > 1:
        raise typer.BadParameter("--etag is the version of one document: give it with --scope local or --scope global.")
    with reporting(chosen.output, chosen.server), chosen.client() as client:
        deletion = client.delete(topic, scopes=dict.fromkeys(scopes, etag), request_id=request_id)
    if chosen.json:
        json_forms.write(json_forms.of_deletion(deletion))
    else:
        _show_deletion(deletion)
    failed = [result.error for result in deletion.scopes.values() if result.error is not None]
    if failed:
        raise typer.Exit(exit_code(failed[0]))


def list_(
    context: typer.Context,
    namespace: Annotated[str, typer.Argument(help="The namespace: tenant/namespace.")],
    scope: Annotated[ScopeNames, typer.Option("--scope", help="Which documents.")] = ScopeNames.BOTH,
) -> None:
    """List the documents of a namespace, by topic and scope.

    \b
    Examples:
      topicpolicies list public/default
      topicpolicies list public/default --scope global --output json
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    with reporting(chosen.output, chosen.server), chosen.client() as client:
        documents = list(client.list(namespace, scopes=scope.scopes))
    if chosen.json:
        json_forms.write(json_forms.of_documents(documents))
        return
    table = Table("topic", "scope", "version", "settings")
    for document in documents:
        told = compact(document.policies) if document.policies is not None else ""
        row = (printable(document.topic), document.scope.name, document.version, told)
        table.add_row(*(Text(cell, overflow="fold") for cell in row))
    if documents:
        console().print(table)
    typer.echo(f"{len(documents)} document{'' if len(documents) == 1 else 's'} in {printable(namespace)}", err=True)


def _show(document: Document) -> None:
    typer.echo(f"{printable(document.topic)}  {document.scope.name}  version {document.version}")
    if document.policies is not None:
        console().print(settings_table(document.policies))


def _show_update(result: UpdateResult, *, validate_only: bool) -> None:
    told = "Valid, and nothing was written" if validate_only and result.outcome is UpdateOutcome.APPLIED else _OUTCOMES[result.outcome]
    repeated = ", as the first time" if result.repeated else ""
    typer.echo(f"{told}{repeated} (version {result.version}, before {result.previous_version}, request id {result.request_id})")
    _show(Document(result.topic, result.scope, result.policies, result.version))


def _show_deletion(deletion: Deletion) -> None:
    for scope, result in deletion.scopes.items():
        if result.error is not None:
            typer.echo(f"{scope.name}: not deleted", err=True)
            tell(result.error, Output.TABLE)
        elif result.outcome is DeleteOutcome.ABSENT:
            typer.echo(f"{scope.name}: there was no document (version {result.version})")
        else:
            typer.echo(f"{scope.name}: deleted (version {result.version}, before {result.previous_version})")
