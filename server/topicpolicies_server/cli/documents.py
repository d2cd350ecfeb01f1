"""The commands about documents: get, update, edit, delete, list, effective."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path as FilePath
from typing import Annotated

import typer

from topicpolicies import (
    CHANGE_OUTCOME_SKIPPED,
    CHANGE_OUTCOME_UNCHANGED,
    ChangeOutcome,
    ChangeResult,
    Client,
    InvalidArgument,
    PolicyDocument,
    TopicPolicies,
    TopicPoliciesError,
)
from topicpolicies.masks import Path, parse_path, paths_between
from topicpolicies.requests import ChangeOptions
from topicpolicies.v1.service_pb2 import EffectivePolicy, PolicySource
from topicpolicies.values import enum_name

from ..declared.values import between, compact, lines, plain, policies_of, printable_path, scope_name
from ..escaping import printable
from .assignments import parse
from .calls import calling
from .exits import ExitCode
from .fields import complete
from .globals import Globals, OneScope, Scopes, Topic, WrongUsage, full_namespace, scope_of, scopes_of, tell
from .history import parse_moment, read_at
from .rendering import of_documents, show_columns, show_differences, show_folded, yaml

IfVersion = Annotated[str, typer.Option("--if-version", metavar="VERSION", help="The version that the document must have.")]
ValidateOnly = Annotated[bool, typer.Option("--validate-only", "--dry-run", help="Check everything and write nothing.")]
RequestId = Annotated[
    str, typer.Option("--request-id", metavar="UUID", help="An id of your own, so that the command can be repeated safely.")
]

_HEAD = """\
# {topic}  {scope}  version {version}
# What is removed here is cleared. Times and sizes may have units (7d, 10G). An empty file changes nothing.
# topicpolicies explain FIELD says what a field takes.
"""


def get(
    chosen: Globals,
    topic: Topic,
    scope: Scopes = "local",
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
      topicpolicies get public/default/orders --scope both -o yaml
    """  # noqa: D301 - "\b" keeps the lines
    moment = parse_moment(as_of, "--as-of") if as_of else None
    if isinstance(moment, str) and scope == "both":
        raise typer.BadParameter("A version belongs to one scope.", param_hint="--as-of")
    with calling(chosen) as client:
        documents = [read_at(client, topic, each, moment) for each in scopes_of(scope)]
        there = [document for document in documents if document.HasField("policies")]
        elsewhere = not there and scope == "local" and moment is None and _has_global(client, documents[0])
    told = of_documents(documents) if scope == "both" else documents[0]
    if not chosen.shown(told, [each.topic for each in there]):
        for document in documents:
            show(document)
        if elsewhere:
            tell("It has a GLOBAL one, for all clusters: topicpolicies get -g shows it.")
    if not there:
        raise typer.Exit(ExitCode.NOT_FOUND)


def _has_global(client: Client, absent: PolicyDocument) -> bool:
    return not absent.disabled and client.get(absent.topic, scope=scope_of("global")).HasField("policies")


def update(  # noqa: PLR0913, PLR0917 - options
    chosen: Globals,
    topic: Topic,
    assignments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FIELD=VALUE...",
            help="What to set; FIELD+=VALUE and FIELD-=VALUE for elements of lists.",
            autocompletion=lambda incomplete: [f"{path}=" for path in complete(incomplete)],
        ),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="FIELD", help="What to clear; can be repeated.", autocompletion=complete),
    ] = None,
    mask: Annotated[
        list[str] | None,
        typer.Option(
            "--mask",
            metavar="FIELD",
            help="What to replace as a whole; * alone: the document. Can be repeated.",
            autocompletion=complete,
        ),
    ] = None,
    scope: OneScope = "local",
    if_version: IfVersion = "",
    must_not_exist: Annotated[bool, typer.Option("--must-not-exist", help="Fail if there is a document.")] = False,
    skip_if_absent: Annotated[bool, typer.Option("--skip-if-absent", help="Do nothing if there is no document.")] = False,
    validate_only: ValidateOnly = False,
    request_id: RequestId = "",
) -> None:
    """Change some settings of one topic, and no others.

    Values are read by the field's type: numbers, times and sizes in the field's unit or with one of their own (90s, 7d, 10G, infinite),
    true or false, names of enums in any case, lists separated by commas or as JSON, objects as JSON. explain FIELD says what a field takes.
    The entry of a map is addressed by its key, in backticks (in quotes for the shell) if it has characters besides letters, digits and _.

    In objects and maps only the given leaves and entries change. Lists are replaced. --mask names what is replaced as a whole; then
    everything that is set must be in the mask.

    \b
    Examples:
      topicpolicies update persistent://public/default/t \\
          max_producer_per_topic=5 --unset message_ttl_in_seconds \\
          retention_policies.retention_time_in_minutes=7d \\
          retention_policies.retention_size_in_mb=10G
      topicpolicies update public/default/t \\
          subscription_types_enabled=shared,key_shared
      topicpolicies update public/default/t \\
          'subscription_policies.`my-sub`.dispatch_rate.dispatch_throttling_rate_in_msg=10'
      topicpolicies update public/default/t \\
          'publish_rate={"publish_throttling_rate_in_msg": 100}'
      topicpolicies update public/default/t -g replication_clusters+=us-east
      topicpolicies update public/default/t max_producer_per_topic=5 --mask '*'
    """  # noqa: D301 - "\b" keeps the lines
    if not assignments and not unset and not mask:
        raise WrongUsage("Name what to change: FIELD=VALUE to set, --unset FIELD to clear.")
    if must_not_exist and if_version:
        raise typer.BadParameter("Say this or --if-version, not both.", param_hint="--must-not-exist")
    wanted = parse(assignments or (), unset or ())
    with calling(chosen) as client:
        how = options_of_change(chosen, scope, if_version, request_id, validate_only=validate_only)
        how["exists"] = False if must_not_exist else None
        client.server_info()  # fails if there is no server: nothing was sent then
        result = client.update(
            topic,
            wanted.values,
            mask=wanted.mask(mask or ()),
            list_operations=wanted.list_operations,
            skip_if_absent=skip_if_absent,
            **how,
        )
    show_change(chosen, topic, result)


def edit(
    chosen: Globals,
    topic: Topic,
    scope: OneScope = "local",
    dry_run: ValidateOnly = False,
) -> None:
    """Edit the policies of one topic in your editor.

    The editor is that of $VISUAL or $EDITOR. The change is made on condition that nobody has changed the document meanwhile.
    After an error what you have written is kept, in a file that is named.

    \b
    Examples:
      topicpolicies edit persistent://public/default/orders
      EDITOR=nano topicpolicies edit public/default/orders -g
    """  # noqa: D301 - "\b" keeps the lines
    with calling(chosen) as client:
        document = client.get(topic, scope=scope_of(scope))
        handle, name = tempfile.mkstemp(prefix="topicpolicies-", suffix=".yaml")
        os.close(handle)
        file, kept = FilePath(name), False
        try:
            edited = _edited(document, file)
            if edited is None:
                version = document.version
                same = ChangeResult(document=document, version=version, previous_version=version, outcome=CHANGE_OUTCOME_UNCHANGED)
                if not chosen.shown(same, [document.topic]):
                    typer.echo("Nothing was changed.", err=True)
                return
            how = options_of_change(chosen, scope, document.version, validate_only=dry_run)
            result = client.update(document.topic, edited[0], mask=edited[1], **how)
        except TopicPoliciesError:
            kept = True
            chosen.note(f"What you wrote is kept in {file}.")
            raise
        finally:
            if not kept:
                file.unlink()
    show_change(chosen, topic, result)


def delete(
    chosen: Globals,
    topic: Topic,
    scope: OneScope = "local",
    if_version: IfVersion = "",
    validate_only: ValidateOnly = False,
    request_id: RequestId = "",
) -> None:
    """Delete one document of one topic.

    Deleting an absent document is not an error.

    \b
    Examples:
      topicpolicies delete persistent://public/default/orders
      topicpolicies delete public/default/orders -g --reason "moved to the namespace"
      topicpolicies delete public/default/orders --if-version 12
    """  # noqa: D301 - "\b" keeps the lines
    with calling(chosen) as client:
        how = options_of_change(chosen, scope, if_version, request_id, validate_only=validate_only)
        client.server_info()  # fails if there is no server: nothing was sent then
        result = client.delete(topic, **how)
        show_change(chosen, topic, result)
        if scope == "local" and not chosen.for_programs:
            with suppress(TopicPoliciesError):  # what was deleted is deleted
                if _has_global(client, result.document):
                    tell("It has a GLOBAL one, for all clusters: topicpolicies delete -g deletes it.")


def list_(
    chosen: Globals,
    namespace: Annotated[
        str, typer.Argument(metavar="NAMESPACE", help="tenant/namespace; a name alone is of the tenant public.", callback=full_namespace)
    ],
    scope: Scopes = "both",
) -> None:
    """List the documents of a namespace, by topic and scope.

    A line has the topic, the scope, the version and the settings of a document. On a terminal it is folded, unless with -o wide.

    \b
    Examples:
      topicpolicies list public/default
      topicpolicies list public/default -g --output json
      topicpolicies list public/default -o name
    """  # noqa: D301 - "\b" keeps the lines
    with calling(chosen) as client:
        pages = list(client.list_pages(namespace, scopes=scopes_of(scope), page_size=1_000))
    documents = [document for page in pages for document in page.documents]
    told = of_documents(documents) | {"resume_token": pages[0].resume_token}
    if not chosen.shown(told, [each.topic for each in documents]):
        rows = [(printable(each.topic), scope_name(each), each.version, compact(each.policies)) for each in documents]
        show_columns(rows)
        typer.echo(f"{len(documents)} document{'' if len(documents) == 1 else 's'} in {printable(namespace)}", err=True)


def effective(chosen: Globals, topic: Topic) -> None:
    """Show the values in force for a topic, and the level of each.

    A setting is taken from the first of these that sets it: the topic's local document, its global one, the namespace, the broker.

    \b
    Examples:
      topicpolicies effective persistent://public/default/orders
      topicpolicies effective public/default/orders --output json
    """  # noqa: D301 - "\b" keeps the lines
    with calling(chosen) as client:
        found = client.effective(topic)
    if not chosen.shown(found, [found.topic]):
        disabled = "  its own policies are disabled" if found.disabled else ""
        typer.echo(f"{printable(found.topic)}  local version {found.local_version}, global version {found.global_version}{disabled}")
        show_columns((_source(found, path), f"{printable_path(path)}={value}") for path, value in lines(found.policies))


def _source(found: EffectivePolicy, path: Path) -> str:
    """Returns the level that sets a leaf, or the object or map that it belongs to."""
    sources = {parse_path(each.path): each.source for each in found.sources}
    setting = next((path[:length] for length in range(len(path), 0, -1) if path[:length] in sources), None)
    return "" if setting is None else enum_name(PolicySource.DESCRIPTOR, sources[setting]).lower().replace("_", ", ")


def _edited(document: PolicyDocument, file: FilePath) -> tuple[TopicPolicies, list[str]] | None:
    """Returns the policies as the user has edited them, and the mask of what differs; None: nothing does.

    At a terminal a text that is wrong is edited again, with what is wrong on top.
    """
    from ..declared.files import parse_policies  # noqa: PLC0415 - YAML is for few commands only

    head = _HEAD.format(topic=document.topic, scope=scope_name(document), version=document.version)
    policies = plain(document.policies, units=True)
    before = text = head + (yaml(policies, begin=False) + "\n" if policies else "")
    while True:
        file.write_text(text, encoding="utf-8")
        _run_editor(file)
        last, text = text, file.read_text(encoding="utf-8")
        if text == before or not text.strip():
            return None
        try:
            values, _ = parse_policies(text, str(file))
        except InvalidArgument as error:
            if text == last or not sys.stdin.isatty():
                raise
            text = _with_problems(text, file, error)
            continue
        mask = sorted(paths_between(document.policies, values))
        return (values, mask) if mask else None


def _with_problems(text: str, file: FilePath, error: InvalidArgument) -> str:
    """Returns the text of a file with what is wrong with it on top, by the numbers that its lines have then."""
    whole = text.splitlines()
    rest = [line for line in whole if not line.startswith(f"# {file}:")]
    moved = len(error.violations) - (len(whole) - len(rest))
    problems = []
    for each in error.violations:
        _, _, number = each.field.rpartition(":")
        problems.append(f"# {file}:{int(number) + moved if number.isdecimal() else 1}: {each.description}")
    return "\n".join([*problems, *rest]) + "\n"


def _run_editor(file: FilePath) -> None:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        subprocess.run([*shlex.split(editor), str(file)], check=True)  # noqa: S603 - the user's own
    except OSError as error:
        variable = "VISUAL" if os.environ.get("VISUAL") else "EDITOR"
        told = f"{error.strerror}. Set {variable} to an editor of this machine: {variable}=nano topicpolicies edit ..."
        raise OSError(error.errno, told, f"The editor {editor} can't be run") from None
    except subprocess.CalledProcessError as error:
        raise OSError(0, "nothing was changed.", f"The editor {editor} ended with {error.returncode}") from None


def options_of_change(chosen: Globals, scope: str, if_version: str, request_id: str = "", *, validate_only: bool) -> ChangeOptions:
    """Returns the options that updates and deletions have in common."""
    return {
        "scope": scope_of(scope),
        "version": if_version or None,
        "validate_only": validate_only,
        "include_previous": True,
        "request_id": request_id,
        "reason": chosen.reason,
    }


def show(document: PolicyDocument) -> None:
    """Prints a document, or on standard error that there is none."""
    topic, scope = printable(document.topic), scope_name(document)
    if document.HasField("policies"):
        typer.echo(f"{topic}  {scope}  version {document.version}")
        show_columns((printable_path(path), value) for path, value in lines(document.policies))
    elif document.disabled:
        tell(f"{topic} has no {scope} document: its topic policies are disabled.")
    else:
        tell(f"{topic} has no {scope} document (version {document.version}).")


def show_change(chosen: Globals, topic: str, result: ChangeResult) -> None:
    """Prints what a change did: its outcome, and the settings that it changed, before and after.

    ``topic``: if the result does not name it: that of a repeat may not.
    """
    document = result.document
    if not chosen.shown(result, [document.topic or topic]):
        outcome = enum_name(ChangeOutcome.DESCRIPTOR, result.outcome).lower().replace("_", " ").capitalize()
        again = ", as the first time" if result.replayed else ""
        gone = "there was no document " if result.outcome in (CHANGE_OUTCOME_UNCHANGED, CHANGE_OUTCOME_SKIPPED) else "deleted "
        deleted = "" if document.HasField("policies") else gone
        where = f"{printable(document.topic)}  {scope_name(document)}  {deleted}" if document.topic else ""
        show_folded(f"{outcome}{again}: {where}(version {result.version}, before {result.previous_version})")
        if document.topic and not result.replayed:  # then the document before is not known
            show_differences(between(policies_of(result.previous), policies_of(document)))
