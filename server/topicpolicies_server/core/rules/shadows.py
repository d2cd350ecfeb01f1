"""Rules about what exists in the LOCAL scope only, shadow topics above all (``PersistentTopicsBase.internalSetShadowTopic``)."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import PolicyError
from ..names import PERSISTENT, parse_topic
from .judging import Judged, blamed
from .values import Check, Problem

_FIELD = "shadow_topics"


def local_only(field: str) -> Check:
    """A field is set in the LOCAL scope only."""

    def check(judged: Judged) -> Iterator[Problem]:
        if not judged.local and getattr(judged.policies, field):
            yield blamed(field), f"{field} exists in the LOCAL scope only: set it there."

    return check


def source_persistent(judged: Judged) -> Iterator[Problem]:
    """Only persistent topics have shadows."""
    if judged.policies.shadow_topics and not judged.key.topic.startswith(PERSISTENT):
        yield blamed(_FIELD), "A topic that is not persistent can't have shadow topics: clear the list."


def names_valid(judged: Judged) -> Iterator[Problem]:
    """Shadow topics have names of topics."""
    for name in judged.policies.shadow_topics:
        if full_name(name) is None:
            yield blamed(_FIELD), f'"{name[:200]}" is not a topic: write persistent://tenant/namespace/topic.'


def shadows_persistent(judged: Judged) -> Iterator[Problem]:
    """Shadow topics are persistent."""
    for name in judged.policies.shadow_topics:
        full = full_name(name)
        if full is not None and not full.startswith(PERSISTENT):
            yield blamed(_FIELD), f'The shadow topic "{name}" is not persistent: give one that is.'


def shadows_exist(judged: Judged) -> Iterator[Problem]:
    """Shadow topics exist."""
    if judged.facts.missing_topics:
        for name in judged.policies.shadow_topics:
            full = full_name(name)
            if full in judged.facts.missing_topics and str(full).startswith(PERSISTENT):
                yield blamed(_FIELD), f'The shadow topic "{name}" does not exist: create it first.'


def full_name(text: str) -> str | None:
    """A topic's full name; None if it has none."""
    try:
        return str(parse_topic(text))
    except PolicyError:
        return None
