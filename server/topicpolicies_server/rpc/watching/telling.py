"""From what a watcher has taken to the bytes that its stream is told.

What several watchers take alike is made once, and kept with it (``core/reading/runs``): those that want it told in the same way, and of
whom the same topics are left out, are told the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...cluster.board import Board
from ...core.reading.heads import Head
from ...core.reading.watch import Batch
from .. import answers

PIECE_BYTES = 60 * 1024
"""Records are joined to pieces of so many bytes; only one document may make a piece longer."""


def told(name: str, batch: Batch, wire: answers.Wire, board: Board | None, *, with_before: bool, own: bool = False) -> Sequence[bytes]:
    """The changes of a batch, without those of topics whose policies are disabled, in pieces.

    Args:
        name: ``tenant/namespace``.
        batch: what was taken; each of its topics was looked at.
        wire: how documents are shown.
        board: tells which topics are disabled; None: none is.
        with_before: whether the documents before are told too.
        own: whether ``wire`` is another one than that of most.
    """
    run = batch.run
    if run is None:
        return _made(name, batch.changes, wire, board, with_before=with_before, own=own)
    way = (wire, with_before, board, len(board.switched) if board is not None else 0)
    pieces = run.told.get(way)
    if pieces is None:
        pieces = run.told[way] = _made(name, batch.changes, wire, board, with_before=with_before, own=own)
    return pieces


def _made(
    name: str, changes: Iterable[Head], wire: answers.Wire, board: Board | None, *, with_before: bool, own: bool
) -> tuple[bytes, ...]:
    shown = changes if board is None else [change for change in changes if not board.disabled(change.key.topic)]
    return joined([answers.change_record(name, change, wire, with_before=with_before, own=own) for change in shown])


def joined(records: Sequence[bytes]) -> tuple[bytes, ...]:
    """Records as pieces."""
    pieces: list[bytes] = []
    begin = size = 0
    for number, record in enumerate(records):
        if size and size + len(record) > PIECE_BYTES:
            pieces.append(b"".join(records[begin:number]))
            begin, size = number, 0
        size += len(record)
    if size:
        pieces.append(b"".join(records[begin:]))
    return tuple(pieces)
