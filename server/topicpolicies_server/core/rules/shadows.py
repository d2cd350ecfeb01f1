"""Rules about fields that exist in the LOCAL scope only, and about shadow topics (``PersistentTopicsBase.internalSetShadowTopic``)."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import PolicyError
from ..names import PERSISTENT, parse_topic
from .judging import Judged, blamed
from .values import Check, Problem

_FIELD = "shadow_topics"


def local_only(field: str) -> Check:
    """Returns a check that a field is not set in the GLOBAL scope."""

    def check(judged: Judged) -> Iterator[Problem]:
        if not judged.local and getattr(judged.policies, field):
            yield blamed(field), f"{field} exists in the LOCAL scope only: set it there."

    return check


def source_persistent(judged: Judged) -> Iterator[Problem]:
    """Checks that a topic with shadow topics is persistent."""
    if judged.policies.shadow_topics and not judged.key.topic.startswith(PERSISTENT):
        yield blamed(_FIELD), "A topic that is not persistent can't have shadow topics: clear the list."


def names_valid(judged: Judged) -> Iterator[Problem]:
    """Checks that the names of shadow topics are valid."""
    for name in judged.policies.shadow_topics:
        if full_name(name) is None:
            yield blamed(_FIELD), f'"{name[:200]}" is not a topic: write persistent://tenant/namespace/topic.'


def shadows_persistent(judged: Judged) -> Iterator[Problem]:
    """Checks that shadow topics are persistent."""
    for name in judged.policies.shadow_topics:
        full = full_name(name)
        if full is not None and not full.startswith(PERSISTENT):
            yield blamed(_FIELD), f'The shadow topic "{name}" is not persistent: give a persistent topic.'


def shadows_exist(judged: Judged) -> Iterator[Problem]:
    """Checks that shadow topics exist."""
    if judged.facts.missing_topics:
        for name in judged.policies.shadow_topics:
            full = full_name(name)
            if full in judged.facts.missing_topics and str(full).startswith(PERSISTENT):
                yield blamed(_FIELD), f'The shadow topic "{name}" does not exist: create it first.'


def full_name(text: str) -> str | None:
    """Returns the full name of a topic; None if the text is not the name of a topic."""
    try:
        return str(parse_topic(text))
    except PolicyError:
        return None
