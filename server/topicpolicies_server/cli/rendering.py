"""Output. For people: columns without frames, differences, and a line for each event of a watch or the history, folded on a terminal.

The line of an event says when, which document, by whom and why, and what changed.

For programs: messages in Protobuf's own JSON form, with the names of the definition, also as YAML. One thing differs from that form: a
mask is a list of paths, because Protobuf's JSON form of a mask can't carry the keys of maps.
"""

from __future__ import annotations

import io
import json
import re
import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TypeAlias

import typer
from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from topicpolicies.v1.events_pb2 import ActorStanding, ChangeOrigin
from topicpolicies.v1.history_pb2 import HistoryEntry, HistoryGap, HistoryGapReason, HistoryKind, HistoryOutcome
from topicpolicies.v1.policies_pb2 import SCOPE_GLOBAL, PolicyDocument, TopicPolicies
from topicpolicies.v1.service_pb2 import NamespaceState, PolicyChange
from topicpolicies.values import enum_name

from ..declared.values import Difference, compact, one_line, plain, policies_of, printable_path, scope_name
from ..escaping import folded, printable, width_of

WIDE = ContextVar("WIDE", default=False)
"""Whether no line is folded in the output of the running command."""
_COLOURS = {"+": "green", "-": "red", "~": "yellow"}


def columns(rows: Iterable[Sequence[str]], room: int = 0) -> Iterator[str]:
    """Yields rows as text in which the cells of a column begin alike.

    ``room``: the width to which the last cell is folded; below the others, if those take more than half of it. 0: nothing is folded.
    Rows whose other cells take more than three quarters have no part in the columns: their last cell is below.
    """
    whole = list(rows)
    long = [room and sum(_width(cell) + 2 for cell in row[:-1]) > room * 3 // 4 for row in whole]
    aligned = [row[:-1] for row, is_long in zip(whole, long, strict=True) if not is_long]
    widths = [max(map(_width, cells)) for cells in zip(*aligned, strict=True)] or [0] * len(whole[0][:-1] if whole else ())
    for row, is_long in zip(whole, long, strict=True):
        first = "".join(cell + " " * (max(width - _width(cell), 0) + 2) for cell, width in zip(row[:-1], widths, strict=True))
        indent = _width(first)
        if not room or (indent + _width(row[-1]) <= room and not is_long):
            yield (first + row[-1]).rstrip()
            continue
        below = indent > room // 2
        margin = " " * (4 if below else indent)
        folded = textwrap.wrap(row[-1], max(1, room - len(margin)), break_long_words=False, break_on_hyphens=False)
        yield f"\n{margin}".join([first.rstrip(), *folded] if below else [(first + "".join(folded[:1])).rstrip(), *folded[1:]])


def show_columns(rows: Iterable[Sequence[str]]) -> None:
    """Prints rows in columns, on a terminal folded to its width."""
    for line in columns(rows, terminal_width()):
        typer.echo(line)


def show_folded(line: str) -> None:
    """Prints a line, on a terminal folded to its width; the lines below the first are indented."""
    typer.echo(folded(line, terminal_width(), " " * 6))


def terminal_width() -> int:
    """Returns the width of the terminal to which text is printed; 0: it is none, or nothing is to be folded."""
    return 0 if WIDE.get() else width_of(sys.stdout)


def _width(text: str) -> int:
    """Returns how many columns a text takes: a character of Chinese, for example, takes two."""
    return sum(0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF") for each in text)


def show_differences(differences: Sequence[Difference]) -> None:
    """Prints differences, one line each, with the values before and after; in colours on a terminal."""
    rows = [(each.sign, printable_path(each.path), each.change) for each in differences]
    for line in columns(rows, terminal_width()):
        typer.secho(line, fg=_COLOURS[line[0]])


def line(event: Any, *, snapshot: bool = False) -> str | None:
    """Returns the line of a ``WatchEvent`` or a ``WatchHistoryEvent``; None: it is not shown.

    ``snapshot``: whether a change is a document of the snapshot.
    """
    match event.WhichOneof("content"):
        case "change" if snapshot:
            change, policies = event.change, policies_of(event.change.document)
            sign, what = ("-", "no document") if policies is None else ("=", compact(policies))
            return f"{_of(change, change.origin.publish_time, sign)}{_by(change.origin) if change.origin.actor else ''}  {what}"
        case "change":
            return _changed(event.change, event.change.origin.publish_time)
        case "entry":
            return entry_line(event.entry)
        case "gap":
            return f"{event.namespace}: {gap_line(event.gap)}"
        case "bookmark" if event.bookmark.synced:
            return f"{_time()}  # {event.namespace} is complete"
        case "reset":
            return f"{_time()}  # {printable(event.reset.message) or f'{event.namespace} begins anew'}"
        case "status":
            state = enum_name(NamespaceState.DESCRIPTOR, event.status.state).lower()
            return f"{_time()}  # {printable(event.status.message) or f'{event.namespace}: {state}'}"
        case _:
            return None


def entry_line(entry: HistoryEntry) -> str:
    """Returns the line of an event of the history. A repair or a tombstone restates a change, whose own event says who requested it."""
    kind, outcome = enum_name(HistoryKind.DESCRIPTOR, entry.kind).lower(), enum_name(HistoryOutcome.DESCRIPTOR, entry.outcome).lower()
    if not entry.HasField("document"):
        return f"{_time(entry.time)}  # {kind}: {printable(entry.problem)}"
    if entry.outcome == HistoryOutcome.HISTORY_OUTCOME_APPLIED:
        return _changed(entry, entry.time, kind)
    if entry.outcome == HistoryOutcome.HISTORY_OUTCOME_RESTATED:
        return f"{_of(entry, entry.time, '=')} {kind}: restates the document, and changes nothing"
    return f"{_of(entry, entry.time, '#')} {kind}, {outcome}{_by(entry.origin)}"


def gap_line(gap: HistoryGap) -> str:
    """Returns a line that says in which period events may be missing, and why."""
    begin = _time(gap.start_time) if gap.HasField("start_time") else "the beginning of the log"
    why = enum_name(HistoryGapReason.DESCRIPTOR, gap.reason).lower().replace("_", " ")
    return f"Gap: events may be missing from {begin} to {_time(gap.end_time)}: {why}"


def _of(change: PolicyChange | HistoryEntry, time: Timestamp, sign: str) -> str:
    document = change.document
    return f"{_time(time)}  {sign} {printable(document.topic)} {scope_name(document)} {document.version}"


def _changed(change: PolicyChange | HistoryEntry, time: Timestamp, kind: str = "") -> str:
    before, after = policies_of(change.previous), policies_of(change.document)
    if after is None:
        sign, what = "-", "deleted" if before is None else f"deleted: {compact(before)}"
    elif before is not None:
        sign, what = "~", one_line(before, after)
    else:
        sign, what = ("+", "created: ") if change.HasField("previous") else ("~", "now: ")
        what += compact(after)
    if isinstance(change, HistoryEntry) and before is not None and before == after:  # secrets look the same
        what = f"changed: {', '.join(map(printable, change.changed.paths))}"
    return f"{_of(change, time, sign)}{kind and f' {kind}'}{_by(change.origin)}  {what}"


def _by(origin: ChangeOrigin) -> str:
    claimed = origin.actor_standing == ActorStanding.ACTOR_STANDING_UNAUTHENTICATED
    parts = [
        f" by {origin.actor or 'UNKNOWN'}{' (not authenticated)' if claimed else ''}",
        f"for whom {origin.principal} called" if origin.principal not in ("", origin.actor) else "",
        f'who named "{origin.claimed_actor}" as the actor' if origin.claimed_actor else "",
        f"producer {origin.producer_name}" if origin.producer_name else "",
        f"as {origin.owner} declares" if origin.owner else "",
        f"why: {origin.reason}" if origin.reason else "",
    ]
    return printable(", ".join(filter(None, parts)))


def _time(moment: Timestamp | None = None) -> str:
    """Returns a moment, by default now, in local time."""
    found = moment.ToDatetime(UTC) if moment is not None and moment.ToNanoseconds() else datetime.now(UTC)
    return f"{found.astimezone():%Y-%m-%d %H:%M:%S.%f}"[:-3]


Json: TypeAlias = dict[str, Any]
_ENDLESS = 1 << 30
"""The width of lines of YAML: a text that the library breaks into several is not always read as it was."""
_NEXT_LINE = "\x85"
_NOT_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON may contain literally, and YAML may not."""


def dumps(document: Json) -> str:
    """Returns one JSON document as one line."""
    return json.dumps(document, ensure_ascii=False)


def yaml(document: Any, *, begin: bool = True) -> str:
    """Returns a document as YAML 1.2, without the last line's end. ``begin``: whether ``---`` stands before it."""
    from ruamel.yaml import YAML  # noqa: PLC0415 - for few commands only
    from ruamel.yaml.representer import RoundTripRepresenter  # noqa: PLC0415

    class Representer(RoundTripRepresenter):
        """Writes texts so that they are read as they were: U+0085 counts as a line's end where it stands as it is."""

        def represent_str(self, data: str) -> Any:
            return self.represent_scalar("tag:yaml.org,2002:str", data, style='"' if _NEXT_LINE in data else None)

    Representer.add_representer(str, Representer.represent_str)
    writer = YAML(typ="rt", pure=True)
    writer.Representer = Representer
    writer.default_flow_style = False
    writer.explicit_start = begin
    writer.width = _ENDLESS
    writer.indent(mapping=2, sequence=4, offset=2)
    text = io.StringIO()
    writer.dump(document, text)
    return text.getvalue().removesuffix("\n")


def of_message(message: Message) -> Json:
    """Returns the JSON form of a message."""
    bare = type(message)()
    bare.CopyFrom(message)
    masks = list(_take_masks(bare, ()))
    told = json_format.MessageToDict(bare, preserving_proto_field_name=True)
    for path, paths in masks:
        at = told
        for name in path[:-1]:
            at = at[name]
        at[path[-1]] = paths
    return told


def of_documents(documents: Iterable[PolicyDocument]) -> Json:
    """Returns an object with the documents, which are never left out."""
    return {"documents": [of_message(document) for document in documents]}


def _take_masks(message: Message, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Clears each mask in a message, and yields its path and content."""
    for field, value in message.ListFields():
        if isinstance(value, FieldMask):
            yield (*above, field.name), list(value.paths)
            message.ClearField(field.name)
        elif field.message_type not in (None, TopicPolicies.DESCRIPTOR) and not field.is_repeated:
            yield from _take_masks(value, (*above, field.name))


def declaring(documents: Iterable[PolicyDocument], namespaces: Iterable[str], *, as_json: bool) -> str:
    """Returns the file that declares documents as they are: YAML, or one line of JSON that is also YAML."""
    entries = []
    for document in documents:
        if document.HasField("policies"):
            scope = {"scope": "global"} if document.scope == SCOPE_GLOBAL else {}
            entries.append({"topic": document.topic} | scope | {"set": plain(document.policies, units=not as_json)})
    file = {"version": 1, "namespaces": list(namespaces), "policies": entries}
    if not as_json:
        return yaml(file, begin=False) + "\n"
    return _NOT_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", dumps(file)) + "\n"
