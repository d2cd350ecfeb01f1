"""Message ids as positions: strings whose plain order is log order, and which show when one entry directly follows another.

A message id, or *place*, is (ledger, entry, index in the entry's batch; -1 if the entry is no batch). BookKeeper numbers the entries of one
ledger densely from 0 and never uses a ledger's number twice, so the ids of a partition only grow, from ledger to ledger too. A position
writes each number in decimal after one letter that says how many digits follow, and omits a batch index of -1: ledger 31, entry 3 is
``b31a3``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ...core.policies.events import Position

MAX_NUMBER = 2**63 - 1
"""The highest ledger, entry or index."""
_NO_BATCH = -1
_ENTRY = re.compile(r"(\d+):(-1|\d+)", re.ASCII)
_BORDER = re.compile(r"[a-s](\d+)", re.ASCII)
_FORM = re.compile(r"([a-s])(\d+)([a-s])(\d+)(?:([a-s])(\d+))?", re.ASCII)


class MessageId(NamedTuple):
    """Where a message stands in its partition."""

    ledger: int
    entry: int
    batch_index: int = _NO_BATCH
    """The index within the entry; -1: the entry is this one message."""


NOWHERE = MessageId(-1, -1)
"""The place before the first message."""


def entry_of(text: object) -> MessageId | None:
    """Parses ``ledger:entry``, as the admin API writes it, where entry -1 is before the first; None if the text has another form."""
    match = _ENTRY.fullmatch(str(text or ""))
    return MessageId(int(match[1]), int(match[2])) if match else None


def position_of(message: MessageId) -> Position:
    """Returns the position of a message id.

    Raises:
        ValueError: a number is out of range, as in the ids that Pulsar uses for "earliest" and "latest".
    """
    ledger, entry, index = message
    if not (0 <= ledger <= MAX_NUMBER and 0 <= entry <= MAX_NUMBER and _NO_BATCH <= index <= MAX_NUMBER):
        raise ValueError(f"{message} is not the place of a message")
    position = _lettered(ledger) + _lettered(entry)
    return position if index == _NO_BATCH else position + _lettered(index)


def border_of(message: MessageId) -> Position:
    """Returns the position of a message; for entry -1, the border before a ledger's first entry, which sorts after all earlier ledgers."""
    return _lettered(message.ledger) if message.entry < 0 else position_of(message)


def message_id_of(position: Position) -> MessageId:
    """Returns the message id of a position.

    Raises:
        ValueError: the text is not a position of ``position_of``.
    """
    match = _FORM.fullmatch(position)
    if match is not None:
        ledger, entry, index = match[2], match[4], match[6]
        message = MessageId(int(ledger), int(entry), _NO_BATCH if index is None else int(index))
        if max(message) <= MAX_NUMBER and position_of(message) == position:
            return message
    raise ValueError(f'"{position[:100]}" is not the position of a message')


def place_of(position: Position) -> MessageId:
    """Returns the message id of a position, or of a border before a ledger's first entry; ``NOWHERE`` for the beginning, "".

    Raises:
        ValueError: the text is neither.
    """
    if not position:
        return NOWHERE
    border = _BORDER.fullmatch(position)
    return message_id_of(position) if border is None else MessageId(int(border[1]), -1)


def directly_follows(earlier: Position, later: Position) -> bool:
    """Whether nothing can stand between two messages.

    True for neighbours in a batch, and for the first message of the entry after one that is no batch. The ids of a batch's messages do not
    show how long the batch is, nor does the id of a ledger's last entry show that it is the last.
    """
    try:
        before, after = message_id_of(earlier), message_id_of(later)
    except ValueError:
        return False
    if before.ledger != after.ledger:
        return False
    if before.entry == after.entry:
        return before.batch_index >= 0 and after.batch_index == before.batch_index + 1
    return before.batch_index == _NO_BATCH and after.entry == before.entry + 1 and after.batch_index <= 0


def _lettered(number: int) -> str:
    digits = str(number)
    return _LETTERS[len(digits)] + digits


_LETTERS = " abcdefghijklmnopqrs"
