"""Documents and events in words, for the log: in one line, bounded, and without the credentials that offload policies can contain."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from google.protobuf.json_format import MessageToDict

from ..core.policies import documents
from ..core.policies.documents import Setting, Settings
from ..core.policies.events import Placed

_LONGEST = 1_000
"""The most characters of a text made here."""
_CONFIDENTIAL = "offload_policies"


def difference(before: Settings | None, after: Settings | None) -> str:
    """Returns the settings in which two documents differ, as ``name: before -> after``, in the order of their names."""
    if after is None:
        return "nothing" if before is None else f"{document(before)} -> no document"
    if before is None:
        return f"no document -> {document(after)}"
    names = sorted(documents.differing(before, after))
    return _bounded("; ".join(f"{name}: {_value(name, before)} -> {_value(name, after)}" for name in names) or "no difference")


def document(settings: Settings) -> str:
    """Returns a whole document in words."""
    return _bounded("{" + "; ".join(f"{name}: {_value(name, settings)}" for name in sorted(settings)) + "}")


def event_in_words(placed: Placed, settings: Sequence[Setting] = ()) -> str:
    """Returns where an event stands, what wrote it, and what it was meant to change, in words."""
    event = placed.event
    assert event is not None, "an event that could be read"
    if event.stamp is None:
        writer = f"a broker ({placed.producer or 'unknown producer'})"
        changes = ", ".join(settings)
    else:
        writer = f"a sidecar ({event.stamp.actor or 'unknown actor'})"
        changes = ", ".join(event.stamp.mask)
    at = datetime.fromtimestamp(placed.published_at / 1000, UTC).isoformat(timespec="milliseconds")
    about = f", changing {changes}" if changes else ""
    return _bounded(f"{event.key.topic} ({event.key.scope.name}), {placed.position} of {writer} at {at}{about}")


def _value(name: Setting, settings: Settings) -> str:
    value = settings.get(name)
    if value is None:
        return "unset"
    if name == _CONFIDENTIAL or name.startswith(documents.EXTRA_PREFIX):
        return f"(digest {documents.digest(value)})"
    shown: Any = MessageToDict(documents.join({name: value}), preserving_proto_field_name=True)
    for part in name.split("/", 1):  # the name, and the key of a map's entry, have been said
        shown = shown.get(part, shown)
    return json.dumps(shown, separators=(",", ":"))


def _bounded(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
