"""Serializes the changes that a watcher has taken, once for all watchers that take the same ones.

Watchers of a whole namespace often take the same run of changes (``core/reading/runs``). The serialized bytes are kept with the run, so
that all watchers that want documents shown in the same way, and leave out the same topics, share them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...cluster.disabled_topics import DisabledTopics
from ...core.reading.heads import Head
from ...core.reading.watch import Batch
from .. import answers

PIECE_BYTES = 60 * 1024
"""Records are joined to pieces of at most so many bytes; only a single record may exceed it."""


def change_pieces(
    name: str, batch: Batch, wire: answers.Wire, disabled: DisabledTopics | None, *, with_before: bool, own: bool = False
) -> Sequence[bytes]:
    """Returns the change records of a batch in pieces (``joined``), without those of topics whose policies are disabled.

    Args:
        name: ``tenant/namespace``.
        batch: what was taken; each of its topics has been looked up.
        wire: serializes documents.
        disabled: the topics whose policies are disabled; None: no topic has them disabled.
        with_before: whether each change has the document before it, too.
        own: whether ``wire`` is not the one that most watchers use (see ``answers.change_record``).
    """
    run = batch.run
    if run is None:
        return _made(name, batch.changes, wire, disabled, with_before=with_before, own=own)
    way = (wire, with_before, disabled, len(disabled.switched) if disabled is not None else 0)
    pieces = run.serialized.get(way)
    if pieces is None:
        pieces = run.serialized[way] = _made(name, batch.changes, wire, disabled, with_before=with_before, own=own)
    return pieces


def _made(
    name: str, changes: Iterable[Head], wire: answers.Wire, disabled: DisabledTopics | None, *, with_before: bool, own: bool
) -> tuple[bytes, ...]:
    shown = changes if disabled is None else [change for change in changes if not disabled.includes(change.key.topic)]
    return joined([answers.change_record(name, change, wire, with_before=with_before, own=own) for change in shown])


def joined(records: Sequence[bytes]) -> tuple[bytes, ...]:
    """Joins consecutive records to pieces of ``PIECE_BYTES``."""
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
