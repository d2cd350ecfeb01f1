"""Reads and validates WatchPolicies requests."""

from __future__ import annotations

from typing import NamedTuple

from topicpolicies.v1 import service_pb2

from ...access import Permission
from ...core.names import MAX_NAME_LENGTH, Scope, parse_namespace
from ...core.reading.watch import Mode, Token
from ...core.reasons import Reason
from ..problems import MOST_VERSION, Problems, read_scopes, read_topic

_MOST_LOG = 1_024
_MOST_PARTITIONS = 1_024
_SECONDS = (1, 3_600)
"""The shortest and the longest bookmark interval that a request may name, in seconds."""


class Watch(NamedTuple):
    """A validated request: what is to be watched, and how."""

    topics: dict[str, frozenset[str] | None]
    """By namespace: the full names of the topics that are watched; None: all of them."""
    scopes: frozenset[Scope]
    mode: Mode
    resume: dict[str, Token]
    """The tokens to resume from, by namespace. A namespace without one begins with a snapshot, or with the history."""
    from_beginning: bool
    """Whether a namespace without a token begins with the first change that the history has, not with a snapshot."""
    end_when_synced: bool
    include_previous: bool
    bookmark_seconds: float
    broken_off: frozenset[str] = frozenset()
    """The namespaces whose token names no log, as that of a disabled namespace, but has positions: those of a snapshot that broke off."""

    @property
    def permissions(self) -> tuple[Permission, ...]:
        """The permissions that the caller needs in each of the namespaces."""
        every = self.from_beginning or self.mode is not Mode.LATEST
        return (Permission.WATCH, Permission.HISTORY) if every else (Permission.WATCH,)


def read_watch(message: service_pb2.WatchPoliciesRequest, most_selectors: int, default_interval: float) -> Watch:
    """Reads a request.

    Args:
        message: the request.
        most_selectors: how many topics and namespaces it may name.
        default_interval: seconds between two bookmarks, unless the request says otherwise.

    Raises:
        PolicyError: INVALID_ARGUMENT, with every violation.
    """
    problems = Problems()
    selected = _selected(message, most_selectors, problems)
    scopes = read_scopes(message.scopes, problems)
    mode = int(message.mode)
    if mode not in (0, *Mode):
        problems.add("mode", Reason.UNKNOWN_MODE, f"{mode} is not a mode: use WATCH_MODE_LATEST, WATCH_MODE_EVERY or WATCH_MODE_ENTRIES.")
    if message.from_beginning and mode not in (Mode.EVERY, Mode.ENTRIES):
        problems.add("from_beginning", Reason.CONTRADICTION, "LATEST has no beginning: use WATCH_MODE_EVERY, or leave out from_beginning.")
    interval = default_interval
    if message.HasField("bookmark_interval"):
        interval = message.bookmark_interval.seconds + message.bookmark_interval.nanos / 1e9
        if not (_SECONDS[0] <= interval <= _SECONDS[1] and 0 <= message.bookmark_interval.nanos < 1_000_000_000):
            problems.add(
                "bookmark_interval", Reason.OUT_OF_BOUNDS, f"bookmark_interval must be from {_SECONDS[0]} to {_SECONDS[1]:,} seconds."
            )
    resume = _resume(message, selected, problems)
    problems.check()
    return Watch(
        {name: frozenset(topics) if topics is not None else None for name, topics in selected.items()},
        scopes,
        Mode(mode or Mode.LATEST),
        resume,
        message.from_beginning,
        message.end_when_synced,
        message.include_previous,
        interval,
        frozenset(name for name, token in message.resume.items() if not token.log and any(token.positions)),
    )


def _selected(message: service_pb2.WatchPoliciesRequest, most: int, problems: Problems) -> dict[str, set[str] | None]:
    """Returns the selected topics by namespace; None: all of the namespace."""
    selectors = len(message.topics) + len(message.namespaces)
    if not selectors:
        problems.add("topics", Reason.NOTHING_SELECTED, "Name at least one topic or namespace.")
    if selectors > most:
        problems.add(
            "topics",
            Reason.TOO_MANY_SELECTORS,
            f"{selectors:,} topics and namespaces are named; at most {most:,} are allowed: name fewer, or raise max_selectors_per_watch.",
        )
    if len(message.resume) > max(selectors, 1):
        problems.add("resume", Reason.TOO_MANY_ELEMENTS, f"resume has {len(message.resume):,} tokens, more than there are namespaces.")
    if selectors > most or len(message.resume) > max(selectors, 1):
        problems.check()  # raises here: nothing of that size is read further
    selected: dict[str, set[str] | None] = {}
    for index, text in enumerate(message.namespaces):
        namespace = problems.gather(parse_namespace, text, f"namespaces[{index}]")
        if namespace is not None:
            selected[namespace] = None
    for index, text in enumerate(message.topics):
        topic = read_topic(text, problems, f"topics[{index}]")
        if topic is not None:
            topics = selected.setdefault(topic.namespace, set())
            if topics is not None:
                topics.add(topic.full)
    return selected


def _resume(message: service_pb2.WatchPoliciesRequest, selected: dict[str, set[str] | None], problems: Problems) -> dict[str, Token]:
    resume: dict[str, Token] = {}
    for name, token in message.resume.items():
        if name not in selected:
            problems.add("resume", Reason.NOT_SELECTED, f'There is a token for "{name[:MAX_NAME_LENGTH]}", which is not watched.')
        elif not _is_small(token):
            problems.add("resume", Reason.MALFORMED_TOKEN, f"The token for {name} is not a token of this service: begin without it.")
        elif token.log:
            resume[name] = Token(token.log, tuple(token.positions), token.left_out)
    return resume


def _is_small(token: service_pb2.WatchToken) -> bool:
    texts = (token.left_out, *token.positions) if len(token.positions) <= _MOST_PARTITIONS else (" " * (MOST_VERSION + 1),)
    return len(token.log) <= _MOST_LOG and all(len(text) <= MOST_VERSION for text in texts)
