"""Reads and validates the requests of WatchPolicies and WatchHistory."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import NamedTuple, TypeVar

from topicpolicies.v1 import history_pb2, service_pb2

from ...core.names import MAX_NAME_LENGTH, Scope, parse_namespace
from ...core.reading import tokens
from ...core.reading.tokens import Mode, Token
from ...core.reasons import ViolationReason
from ..problems import Problems, read_scopes, read_topic

_SECONDS = (1, 3_600)
"""The shortest and the longest bookmark interval that a request may name, in seconds."""
_MOST_EVERY = 1_000_000_000
_T = TypeVar("_T")


class Watch(NamedTuple):
    """A validated request: what is to be watched, and how."""

    topics: dict[str, frozenset[str] | None]
    """By namespace: the full names of the topics that are watched; None: all of them."""
    scopes: frozenset[Scope]
    mode: Mode
    resume: dict[str, Token]
    """The tokens to resume from, by namespace. A namespace without one begins with a snapshot."""
    include_previous: bool
    bookmark_seconds: float


class HistoryWatch(NamedTuple):
    """A validated request."""

    positions: Mapping[str, str | None]
    """By namespace: the position to go on from; None: the beginning of the history."""
    bookmark_seconds: float
    every: int = 0
    """Behind how many events there is a bookmark, instead of the events; 0: the events are sent."""


def read_watch(message: service_pb2.WatchPoliciesRequest, most_selectors: int, default_interval: float) -> Watch:
    """Reads a request.

    ``most_selectors``: how many topics and namespaces it may name; ``default_interval``: seconds between two bookmarks, unless it says
    otherwise.

    Raises:
        PolicyError: INVALID_ARGUMENT, with every violation.
    """
    problems = Problems()
    selected = _selected(message, most_selectors, problems)
    scopes = read_scopes(message.scopes, problems)
    mode = int(message.mode)
    if mode not in (0, *Mode):
        problems.add("mode", ViolationReason.UNKNOWN_MODE, f"{mode} is not a mode: use WATCH_MODE_LATEST or WATCH_MODE_EVERY.")
    interval = _read_interval(message, default_interval, problems)
    resume = _read_tokens(message.resume_tokens, "resume_tokens", tokens.read, selected, problems)
    problems.check()
    return Watch(
        {name: frozenset(topics) if topics is not None else None for name, topics in selected.items()},
        scopes,
        Mode(mode or Mode.LATEST),
        resume,
        message.include_previous,
        interval,
    )


def read_history_watch(message: history_pb2.WatchHistoryRequest, most: int, default_interval: float) -> HistoryWatch:
    """Reads a request. ``most``: how many namespaces it may name; ``default_interval``: as in ``read_watch``.

    Raises:
        PolicyError: INVALID_ARGUMENT, with every violation.
    """
    problems = Problems()
    _check_sizes(len(message.namespaces), most, len(message.positions), ("namespaces", "positions"), problems)
    names = [problems.gather(parse_namespace, text, f"namespaces[{index}]") for index, text in enumerate(message.namespaces)]
    selected: dict[str, str | None] = {name: None for name in names if name is not None}
    positions = _read_tokens(message.positions, "positions", _checked, selected, problems)
    interval = _read_interval(message, default_interval, problems)
    if not 0 <= message.bookmark_every <= _MOST_EVERY:
        problems.add("bookmark_every", ViolationReason.OUT_OF_BOUNDS, f"bookmark_every must be from 1 to {_MOST_EVERY:,}, or unset.")
    problems.check()
    return HistoryWatch(selected | positions, interval, message.bookmark_every)


def _checked(position: str) -> str:
    tokens.read_position(position)
    return position


def _read_interval(
    message: service_pb2.WatchPoliciesRequest | history_pb2.WatchHistoryRequest, default_interval: float, problems: Problems
) -> float:
    """Reads the seconds between two bookmarks; violations are noted. ``default_interval``: unless the request says otherwise."""
    if not message.HasField("bookmark_interval"):
        return default_interval
    interval = message.bookmark_interval.seconds + message.bookmark_interval.nanos / 1e9
    if not (_SECONDS[0] <= interval <= _SECONDS[1] and 0 <= message.bookmark_interval.nanos < 1_000_000_000):
        problems.add(
            "bookmark_interval", ViolationReason.OUT_OF_BOUNDS, f"bookmark_interval must be from {_SECONDS[0]} to {_SECONDS[1]:,} seconds."
        )
    return interval


def _read_tokens(
    texts: Mapping[str, str], field: str, read: Callable[[str], _T], selected: Container[str], problems: Problems
) -> dict[str, _T]:
    """Reads the places to go on from, by namespace; violations are noted. ``read`` raises ValueError if the text is no token."""
    found: dict[str, _T] = {}
    for name, text in texts.items():
        if name not in selected:
            problems.add(field, ViolationReason.NOT_SELECTED, f'There is a token for "{name[:MAX_NAME_LENGTH]}", which is not watched.')
            continue
        try:
            found[name] = read(text)
        except ValueError:
            problems.add(field, ViolationReason.MALFORMED_TOKEN, f"The token for {name} is not a token of this service: begin without it.")
    return found


def _check_sizes(selectors: int, most: int, tokens: int, fields: tuple[str, str], problems: Problems) -> None:
    """Refuses a request that names nothing, or too many namespaces, topics or tokens: nothing of that size is read further.

    ``fields``: the names of the fields that select, and that have tokens.

    Raises:
        PolicyError: INVALID_ARGUMENT, with every violation.
    """
    if not selectors:
        problems.add(fields[0], ViolationReason.NOTHING_SELECTED, "Name at least one topic or namespace.")
    known = len(problems)
    if selectors > most:
        sentence = (
            f"{selectors:,} topics and namespaces are named; at most {most:,} are allowed: name fewer, or raise max_selectors_per_watch."
        )
        problems.add(fields[0], ViolationReason.TOO_MANY_SELECTORS, sentence)
    if tokens > max(selectors, 1):
        problems.add(fields[1], ViolationReason.TOO_MANY_ELEMENTS, f"{fields[1]} has {tokens:,} elements, more than there are namespaces.")
    if len(problems) > known:
        problems.check()


def _selected(message: service_pb2.WatchPoliciesRequest, most: int, problems: Problems) -> dict[str, set[str] | None]:
    """Returns the selected topics by namespace; None: all of the namespace."""
    selectors = len(message.topics) + len(message.namespaces)
    _check_sizes(selectors, most, len(message.resume_tokens), ("topics", "resume_tokens"), problems)
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
