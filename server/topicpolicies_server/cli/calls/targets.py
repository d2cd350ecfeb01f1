"""Sorts the targets of a command: topics and namespaces."""

from __future__ import annotations

from collections.abc import Iterable

from topicpolicies import Violation

from ..files import wrong


def sort_targets(targets: Iterable[str]) -> tuple[list[str], list[str]]:
    """Returns the topics and the namespaces among targets: a namespace has two parts and no domain."""
    topics: list[str] = []
    namespaces: list[str] = []
    for target in targets:
        (namespaces if "://" not in target and target.count("/") == 1 else topics).append(target)
    return topics, namespaces


def check_topics(topics: Iterable[str]) -> None:
    """Checks the topics of a command that takes namespaces too: the server would say only what a topic is.

    Raises:
        InvalidArgument: a name has a single part, so that it is neither.
    """
    for name in topics:
        if "/" not in name:
            told = "This is neither a topic nor a namespace: write persistent://tenant/namespace/topic, or tenant/namespace."
            raise wrong(Violation(name, "MALFORMED_NAME", told))
