"""Serializes the changes that a watcher has taken, once for all watchers that take the same ones.

Watchers of a whole namespace often take the same changes (``Batch.made``). The serialized bytes are kept with these, so that all watchers
that want documents shown in the same way, and leave out the same topics, share them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...core.reading.heads import Head
from ...core.reading.watch import Batch, Token
from .. import answers
from .events import change_record, resumable

PIECE_BYTES = 60 * 1024
"""Records are joined to pieces of at most so many bytes; only a single record may exceed it."""


class Piece:
    """Records of consecutive changes. The last one is apart, because a token is added to it."""

    __slots__ = ("_whole", "before", "last", "upto")

    def __init__(self, before: bytes, last: bytes, upto: int) -> None:
        """A piece of a batch.

        Args:
            before: all records but the last, joined.
            last: the last record.
            upto: how many changes of the batch come before the end of this piece.
        """
        self.before = before
        self.last = last
        self.upto = upto
        self._whole: tuple[Token | None, bytes] | None = None
        """The token that was added last, and all records with it."""

    def bytes(self, token: Token | None) -> bytes:
        """Returns all records. ``token``: where the watch stands behind them; None: it can't be resumed there."""
        if self._whole is None or self._whole[0] != token:
            self._whole = token, self.before + (self.last if token is None else resumable(self.last, token))
        return self._whole[1]


def change_pieces(
    name: str, batch: Batch, wire: answers.Wire, disabled: frozenset[str], *, with_before: bool, own: bool = False
) -> Sequence[Piece]:
    """Returns the change records of a batch in pieces, without those of topics whose policies are disabled.

    Args:
        name: ``tenant/namespace``.
        batch: what was taken.
        wire: serializes documents.
        disabled: the topics whose policies are disabled.
        with_before: whether each change has the document before it, too.
        own: whether ``wire`` is not the one that most watchers use (see ``events.change_record``).
    """
    way = (wire, with_before, disabled)
    pieces: Sequence[Piece] | None = batch.made.get(way)
    if pieces is None:
        pieces = batch.made[way] = _made(name, batch.changes, wire, disabled, with_before=with_before, own=own)
    return pieces


def _made(
    name: str, changes: Iterable[Head], wire: answers.Wire, disabled: frozenset[str], *, with_before: bool, own: bool
) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    records: list[bytes] = []
    size = last = 0
    for number, change in enumerate(changes, 1):
        if change.key.topic in disabled:
            continue
        record = change_record(name, change, wire, with_before=with_before, own=own)
        if records and size + len(record) > PIECE_BYTES:
            pieces.append(Piece(b"".join(records[:-1]), records[-1], last))
            records, size = [], 0
        records.append(record)
        size, last = size + len(record), number
    if records:
        pieces.append(Piece(b"".join(records[:-1]), records[-1], last))
    return tuple(pieces)
