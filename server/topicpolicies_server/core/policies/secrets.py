"""Secrets in documents: shown as ``REDACTED`` to callers that may not see them, and kept when ``REDACTED`` is written back.

Only offload policies have secrets (``topicpolicies.secrets`` says which values). No other setting is looked at, so a document without
offload policies costs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, cast

from google.protobuf.unknown_fields import UnknownFieldSet

from topicpolicies.masks import Path, format_path
from topicpolicies.secrets import FIELD, REDACTED, is_secret
from topicpolicies.v1.policies_pb2 import OffloadPolicies, TopicPolicies

from ..errors import Violation
from ..reasons import ViolationReason
from . import documents
from .documents import EXTRAS_FIELD, Document, Setting

SETTING: Final[Setting] = FIELD
"""The one setting that holds secrets."""
_MAP: Final = "managed_ledger_extra_configurations"
_NAMES: Final = [
    field.name for field in OffloadPolicies.DESCRIPTOR.fields if not field.is_repeated and is_secret((FIELD, field.name))
]  # fmt: skip
_DEEPEST: Final = 32
"""Levels of nested objects and lists, in values of a newer broker, that are searched for secrets. Anything deeper is redacted."""
_REMEMBERED: Final = 1_024
"""How many settings' redacted forms are cached: most topics of a namespace have the same setting."""


def wire(settings: Document) -> bytes:
    """Returns the document's Protobuf form with ``REDACTED`` for each secret (``documents.wire``)."""
    setting = settings.get(SETTING)
    if setting is None:
        return documents.wire(settings)
    return documents.wire({**settings, SETTING: redacted(setting)})


@lru_cache(_REMEMBERED)
def redacted(setting: bytes) -> bytes:
    """Returns the bytes of offload policies with ``REDACTED`` for each secret; the same object if they have no secrets."""
    part = TopicPolicies.FromString(setting)
    policies = part.offload_policies
    changed = _redact_extras(policies)
    for path in _present(policies):
        _put(policies, path, REDACTED)
        changed = True
    return part.SerializeToString(deterministic=True) if changed else setting


def is_redacted(policies: TopicPolicies) -> bool:
    """Returns whether a request's document has ``REDACTED`` in the place of a secret."""
    if not policies.HasField("offload_policies"):
        return False
    return any(_get(policies.offload_policies, path) == REDACTED for path in _present(policies.offload_policies))


def restore(policies: TopicPolicies, before: bytes) -> Iterator[Violation]:
    """Replaces each ``REDACTED`` that a request has put into a document, in place, by the secret that was there before.

    ``before``: the bytes of the offload policies before the request; empty: there were none.

    Yields:
        A violation for each ``REDACTED`` in a place that had no secret before (reason ``REDACTED_SECRET``).
    """
    old = TopicPolicies.FromString(before).offload_policies
    for path in list(_present(policies.offload_policies)):
        if _get(policies.offload_policies, path) != REDACTED:
            continue
        secret = _get(old, path)
        if secret is None:
            name = format_path((FIELD, *path))
            problem = (
                f'"{REDACTED}" stands for a secret that is already stored, and {name} has none: give the secret itself, or leave it out.'
            )
            yield Violation(f"policies.{name}", ViolationReason.REDACTED_SECRET, problem)
        else:
            _put(policies.offload_policies, path, secret)


def _present(policies: OffloadPolicies) -> Iterator[Path]:
    for name in _NAMES:
        if policies.HasField(cast("Any", name)):
            yield (name,)
    for key in policies.managed_ledger_extra_configurations:
        if is_secret((FIELD, _MAP, key)):
            yield (_MAP, key)


def _get(policies: OffloadPolicies, path: Path) -> str | None:
    if len(path) > 1:
        return policies.managed_ledger_extra_configurations.get(path[1])
    return getattr(policies, path[0]) if policies.HasField(cast("Any", path[0])) else None


def _put(policies: OffloadPolicies, path: Path, value: str) -> None:
    if len(path) > 1:
        policies.managed_ledger_extra_configurations[path[1]] = value
    else:
        setattr(policies, path[0], value)


def _redact_extras(policies: OffloadPolicies) -> bool:
    """Redacts the leaves of a newer broker, which are recognized as secrets by their names. Returns whether anything was redacted.

    Values that can't be searched for secrets are not shown: extras that are not a JSON object are dropped, and values that are nested too
    deep are redacted.
    """
    unknown: Any = UnknownFieldSet(policies)  # a sequence, though its type stub does not say so
    found = [field.data for field in unknown if field.field_number == EXTRAS_FIELD and isinstance(field.data, bytes)]
    leaves: dict[str, Any] = {}
    readable = True
    for data in found:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            leaves |= value
        else:
            readable = False
    shown = _shown(leaves)
    if readable and shown == leaves:
        return False
    policies.DiscardUnknownFields()
    if shown:
        text = json.dumps(shown, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        policies.MergeFromString(documents.record(documents.EXTRAS_TAG, text))
    return True


def _shown(value: Any, depth: int = 0) -> Any:
    """Returns a JSON value with ``REDACTED`` for each member, at any depth, that has the name of a secret."""
    if not isinstance(value, dict | list):
        return value
    if depth == _DEEPEST:
        return REDACTED
    if isinstance(value, list):
        return [_shown(each, depth + 1) for each in value]
    return {
        name: REDACTED if part is not None and is_secret((FIELD, name)) else _shown(part, depth + 1) for name, part in value.items()
    }  # fmt: skip
