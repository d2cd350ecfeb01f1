"""The histories that rows are made from: a sidecar's, over ``WatchHistory``, or the file in which a sidecar keeps its history.

A position in a history is the same in both, and string order is the order of the history.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Self, TypeAlias

from grpc import StatusCode

from topicpolicies import Client, OutOfRange, Tls, TokenFile, Unavailable, reason_name
from topicpolicies.v1.history_pb2 import HISTORY_GAP_REASON_TRIMMED, HistoryEntry, HistoryGap, WatchHistoryEvent
from topicpolicies.v1.service_pb2 import NAMESPACE_STATE_LOADING, NAMESPACE_STATE_READY
from topicpolicies_server.core.reading import tokens
from topicpolicies_server.core.reading.tokens import Token
from topicpolicies_server.history import file
from topicpolicies_server.history.entries import Gap
from topicpolicies_server.history.file import Recorded, UnknownLog
from topicpolicies_server.logs.pulsar.admin import Admin
from topicpolicies_server.logs.pulsar.credentials import TlsOptions, token_from_file
from topicpolicies_server.rpc import histories

from .options import OptionError, Options

PATIENCE_SECONDS = 60.0
"""How many seconds a sidecar may be out of reach, or unable to read a namespace's log, before reading fails."""
_NAMESPACES_A_WATCH = 5_000
_ANSWER_SECONDS = 5.0
_ENTRIES = 1_000
"""How many entries are read from a file at a time."""
_ADMIN_SECONDS = 30.0
"""How many seconds a request to the brokers is repeated while they do not answer."""

Content: TypeAlias = HistoryEntry | HistoryGap

Piece: TypeAlias = tuple[str, Content]
"""A piece of a history and the position behind it; of a gap that of what comes next."""


class SidecarHistory:
    """The history of a running sidecar. Use it as a context manager."""

    def __init__(self, options: Options) -> None:
        """Makes a client that connects on first use."""
        self._options = options
        tls = Tls(ca_file=Path(options.ca_file)) if options.ca_file else None
        token = TokenFile(options.token_file) if options.token_file else None
        self._client = Client(options.address, tls=tls, token=token)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Closes it."""
        self._client.close()

    def check(self) -> None:
        """Checks that the history can be reached, without much patience.

        Raises:
            TopicPoliciesError: it can't; UNAVAILABLE or DEADLINE_EXCEEDED: no sidecar answers.
        """
        self._client.server_info(timeout=_ANSWER_SECONDS)

    def namespaces(self) -> list[str]:
        """Returns the namespaces that the options select.

        Raises:
            LogError: the brokers, which list them, do not answer.
        """
        options = self._options
        names: Iterable[str] = options.namespaces or asyncio.run(_listed(options))
        return sorted(filter(options.includes, names))

    def bookmarks(self, behind: Mapping[str, str], every: int, *, first: bool = False) -> dict[str, list[str]]:
        """Returns positions of namespaces, without reading their events: behind every so many events, and the present end.

        Args:
            behind: by namespace, the position behind which to begin; empty: the beginning.
            every: behind how many events.
            first: whether only the first position of each is needed.

        Raises:
            OutOfRange: the history does not know a position.
            TopicPoliciesError: the history can't be read.
        """
        found: dict[str, list[str]] = {}
        names = list(behind)
        for number in range(0, len(names), _NAMESPACES_A_WATCH):
            waiting = set(names[number : number + _NAMESPACES_A_WATCH])
            with closing(self._events({name: behind[name] for name in waiting}, every)) as events:
                for event in events:
                    marks = found.setdefault(event.namespace, [])
                    if not marks or event.position > marks[-1]:
                        marks.append(event.position)
                    if first or event.bookmark.synced:
                        waiting.discard(event.namespace)
                    if not waiting:
                        break
        return found

    def copy(self, namespace: str, behind: str, until: str) -> Iterator[Piece]:
        """Yields the history of a namespace behind a position, up to and including another, in its order. Raises as ``bookmarks``."""
        with closing(self._events({namespace: behind})) as events:
            yield from _stretch(namespace, until, _pieces_of(events))

    def gaps(self, namespace: str) -> list[HistoryGap]:
        """Returns the periods in which a namespace's history may miss events, also behind its last event; not what was trimmed since."""
        return _unknown(next(self._client.history_pages(namespace=namespace, page_size=1)).gaps)

    def _events(self, behind: Mapping[str, str], every: int = 0) -> Generator[WatchHistoryEvent, None, None]:
        """Yields entries, gaps and bookmarks. Fails if a namespace can't be read for ``PATIENCE_SECONDS``."""
        problems: dict[str, str] = {}
        waiting: threading.Timer | None = None
        positions = {name: position for name, position in behind.items() if position}
        with self._client.watch_history(behind, positions=positions, patience=PATIENCE_SECONDS, bookmark_every=every) as watch:
            try:
                for event in watch:
                    match event.WhichOneof("content"):
                        case "status":
                            problems.pop(event.namespace, None)
                            if event.status.state not in (NAMESPACE_STATE_LOADING, NAMESPACE_STATE_READY):
                                problems[event.namespace] = event.status.message
                            if waiting is not None and not problems:
                                waiting.cancel()
                                waiting = None
                            if waiting is None and problems:
                                waiting = threading.Timer(PATIENCE_SECONDS, watch.close)
                                waiting.daemon = True
                                waiting.start()
                        case "reset":
                            reason = reason_name(event.reset.reason)
                            raise OutOfRange(
                                f"The history was replaced: {event.reset.message}", code=StatusCode.OUT_OF_RANGE, reason=reason
                            )
                        case "entry" | "gap" | "bookmark":
                            yield event
            finally:
                if waiting is not None:
                    waiting.cancel()
        raise Unavailable(next(iter(problems.values()), "The sidecar ended the stream."), code=StatusCode.UNAVAILABLE)


class HistoryFile:
    """The file of a history, on a machine's own disk; a sidecar may write it meanwhile. Use it as ``SidecarHistory``."""

    def __init__(self, options: Options) -> None:
        """Opens the file.

        Raises:
            OptionError: there is no such file.
        """
        self._options = options
        path = Path(options.history_file)
        if not path.is_file():
            raise OptionError(f"historyFile: there is no file {path}")
        self._file = file.open_to_read(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Closes it."""
        self._file.close()

    def check(self) -> None:
        """Does nothing: to open the file was the check."""

    def namespaces(self) -> list[str]:
        """See ``SidecarHistory``."""
        return sorted(filter(self._options.includes, self._file.extents()))

    def bookmarks(self, behind: Mapping[str, str], every: int, *, first: bool = False) -> dict[str, list[str]]:
        """See ``SidecarHistory``."""
        found: dict[str, list[str]] = {}
        for name, position in behind.items():
            with self._known():
                divisions = self._file.divisions(name, self._place(position), every)
                places = [tokens.write_position(each.id, each.token) for each in islice(divisions, 1 if first else None)]
            found[name] = places or [position or tokens.write_position(0, file.BEGINNING)]
        return found

    def copy(self, namespace: str, behind: str, until: str) -> Iterator[Piece]:
        """See ``SidecarHistory``."""
        return _stretch(namespace, until, self._pieces(namespace, behind, until))

    def gaps(self, namespace: str) -> list[HistoryGap]:
        """See ``SidecarHistory``."""
        return _unknown(map(histories.gap_message, self._file.page(file.Query(namespace, most=1)).gaps))

    def _pieces(self, namespace: str, behind: str, until: str) -> Iterator[tuple[str, Content | None]]:
        place, more = self._place(behind), True
        while more:
            with self._known():
                stretch = self._file.stretch(namespace, place, _ENTRIES)
            for piece in stretch.pieces:
                if isinstance(piece, Gap):
                    yield "", histories.gap_message(piece)
                elif isinstance(piece, Recorded):
                    entry = HistoryEntry.FromString(histories.entry_message(piece.entry))
                    yield tokens.write_position(piece.entry.id, piece.token), entry
            place, more = stretch.token, stretch.more
        if until <= behind or not int(until[:16], 16):  # there is no entry to be read
            yield until, None

    @staticmethod
    def _place(position: str) -> Token:
        return tokens.read_position(position) if position else file.BEGINNING

    @staticmethod
    @contextmanager
    def _known() -> Iterator[None]:
        try:
            yield
        except UnknownLog as error:
            raise OutOfRange(f"The history was replaced: {error}", code=StatusCode.OUT_OF_RANGE, reason="TOKEN_OUT_OF_RANGE") from error


History: TypeAlias = SidecarHistory | HistoryFile


def opened(options: Options) -> History:
    """Returns the history that the options name."""
    return HistoryFile(options) if options.history_file else SidecarHistory(options)


def _unknown(gaps: Iterable[HistoryGap]) -> list[HistoryGap]:
    return [gap for gap in gaps if gap.reason != HISTORY_GAP_REASON_TRIMMED]


def _pieces_of(events: Iterable[WatchHistoryEvent]) -> Iterator[tuple[str, Content | None]]:
    """Yields what a sidecar sends, until it has sent all that there is. A bookmark is a position only."""
    for event in events:
        yield event.position, event.entry if event.HasField("entry") else event.gap if event.HasField("gap") else None
        if event.bookmark.synced:
            return


def _stretch(namespace: str, until: str, pieces: Iterable[tuple[str, Content | None]]) -> Iterator[Piece]:
    """Yields the entries and gaps among pieces up to a position, each gap with the position of what comes next.

    Raises:
        Unavailable: the pieces end before the position.
    """
    gaps: list[HistoryGap] = []
    for position, content in pieces:
        if isinstance(content, HistoryGap):
            gaps.append(content)
            continue
        yield from ((position, gap) for gap in gaps)
        gaps.clear()
        if content is not None and position <= until:
            yield position, content
        if position >= until:
            return
    raise Unavailable(f"The history of {namespace} ends before what was to be read of it.", code=StatusCode.UNAVAILABLE)


async def _listed(options: Options) -> Iterable[str]:
    """Returns the namespaces that the brokers list for the selected tenants."""
    tls = TlsOptions(trust_certs=Path(options.admin_ca_file) if options.admin_ca_file else None)
    token = token_from_file(Path(options.token_file)) if options.token_file else None
    admin = Admin(options.admin_url, token=token, tls=tls)
    try:
        tenants = sorted(options.tenants) or await admin.get("tenants", seconds=_ADMIN_SECONDS) or []
        return [name for tenant in tenants for name in await admin.get("namespaces", tenant, seconds=_ADMIN_SECONDS) or []]
    finally:
        await admin.close()
