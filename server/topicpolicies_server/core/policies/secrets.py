"""Secrets of documents: shown as ``REDACTED`` to whoever may not see them, and kept by whoever writes that back.

Only offload policies have secrets (``topicpolicies.secrets`` says which values). Their setting is the only one that is looked at, so that a
document without them costs nothing.
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
from ..reasons import Reason
from . import documents
from .documents import EXTRAS_FIELD, Setting, Settings

SETTING: Final[Setting] = FIELD
"""The one setting that holds secrets."""
_MAP: Final = "managed_ledger_extra_configurations"
_NAMES: Final = [
    field.name for field in OffloadPolicies.DESCRIPTOR.fields if not field.is_repeated and is_secret((FIELD, field.name))
]  # fmt: skip
_DEEPEST: Final = 32
"""Objects and lists of a newer broker that stand in one another; what is deeper is not looked through, and not shown."""
_REMEMBERED: Final = 1_024
"""Settings whose redacted form is remembered: most topics of a namespace have the same one."""


def wire(settings: Settings) -> bytes:
    """The document's Protobuf form without its secrets."""
    setting = settings.get(SETTING)
    if setting is None:
        return documents.wire(settings)
    return documents.wire({**settings, SETTING: redacted(setting)})


@lru_cache(_REMEMBERED)
def redacted(setting: bytes) -> bytes:
    """The bytes of the offload policies with ``REDACTED`` for each secret. The same object if there is none."""
    part = TopicPolicies.FromString(setting)
    policies = part.offload_policies
    changed = _redact_extras(policies)
    for path in _present(policies):
        _put(policies, path, REDACTED)
        changed = True
    return part.SerializeToString(deterministic=True) if changed else setting


def is_redacted(policies: TopicPolicies) -> bool:
    """Whether a request's values have ``REDACTED`` where there could be a secret."""
    if not policies.HasField("offload_policies"):
        return False
    return any(_get(policies.offload_policies, path) == REDACTED for path in _present(policies.offload_policies))


def restore(policies: TopicPolicies, before: bytes) -> Iterator[Violation]:
    """Puts back the secrets of a document for which a request had ``REDACTED``.

    Args:
        policies: the document after the request, with its marks; it is changed.
        before: the bytes of the offload policies as they were; empty: there were none.

    Yields:
        A violation for each mark in whose place there was no secret (reason ``REDACTED_SECRET``).
    """
    old = TopicPolicies.FromString(before).offload_policies
    for path in list(_present(policies.offload_policies)):
        if _get(policies.offload_policies, path) != REDACTED:
            continue
        secret = _get(old, path)
        if secret is None:
            name = format_path((FIELD, *path))
            problem = (
                f'"{REDACTED}" stands for a secret that is there already, and {name} has none: give the secret itself, or leave it out.'
            )
            yield Violation(f"policies.{name}", Reason.REDACTED_SECRET, problem)
        else:
            _put(policies.offload_policies, path, secret)


def _present(policies: OffloadPolicies) -> Iterator[Path]:
    """The paths of the secrets that are set."""
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
    """Redacts the leaves of a newer broker, of which only the names are known; whether there were secrets.

    Where nobody can tell what has a secret in it, none of that is shown: what is no JSON, and what is nested too deep.
    """
    unknown: Any = UnknownFieldSet(policies)  # a sequence, which its type stub does not say
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
        policies.MergeFromString(documents.record(EXTRAS_FIELD, text))
    return True


def _shown(value: Any, depth: int = 0) -> Any:
    """A value of JSON with ``REDACTED`` for whatever has the name of a secret in it, at any depth."""
    if not isinstance(value, dict | list):
        return value
    if depth == _DEEPEST:
        return REDACTED
    if isinstance(value, list):
        return [_shown(each, depth + 1) for each in value]
    return {
        name: REDACTED if part is not None and is_secret((FIELD, name)) else _shown(part, depth + 1) for name, part in value.items()
    }  # fmt: skip
