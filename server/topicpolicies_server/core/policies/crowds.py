"""Counts the elements of the lists and maps that a change makes longer."""

from __future__ import annotations

from collections.abc import Iterator

from topicpolicies.v1.policies_pb2 import TopicPolicies

from .documents import LISTS, MAPS, MOST_ELEMENTS, Settings, elements, family
from .secrets import SETTING as OFFLOAD

_CONFIGURATIONS = "managed_ledger_extra_configurations"


def crowded(before: Settings | None, after: Settings) -> Iterator[tuple[str, int]]:
    """Yields the path of each list or map with more than ``MOST_ELEMENTS``, and their number, if a change has made it longer.

    A list that others have made too long can still be made shorter, and other settings can be changed beside it.

    Args:
        before: the document before the change.
        after: the document after the change.
    """
    old: Settings = before or {}
    if len(after) > MOST_ELEMENTS:
        for name in sorted(MAPS.intersection(map(family, after.keys() - old.keys()))):
            count = _entries(name, after)
            if count > MOST_ELEMENTS and count > _entries(name, old):
                yield name, count
    for name in sorted(LISTS):
        value = after.get(name, b"")
        if len(value) > MOST_ELEMENTS and value != old.get(name):
            count = len(elements(value))
            if count > MOST_ELEMENTS and count > len(elements(old.get(name, b""))):
                yield name, count
    offload = after.get(OFFLOAD, b"")
    if len(offload) > MOST_ELEMENTS and offload != old.get(OFFLOAD):
        count = _configurations(offload)
        if count > MOST_ELEMENTS and count > _configurations(old.get(OFFLOAD, b"")):
            yield f"{OFFLOAD}.{_CONFIGURATIONS}", count


def _entries(name: str, settings: Settings) -> int:
    return sum(family(setting) == name for setting in settings)


def _configurations(offload: bytes) -> int:
    return len(TopicPolicies.FromString(offload).offload_policies.managed_ledger_extra_configurations)
