"""Where a batch of a stream ends: each log that has something new gets an equal share of the rows."""

from __future__ import annotations

from collections.abc import Mapping

from .brokers import Ledgers, Place


def admit(start: Mapping[str, Place], logs: Mapping[str, Ledgers], most_rows: int | None) -> dict[str, Place]:
    """Returns the place in each log where the next batch ends.

    Args:
        start: the place in each log behind which the batch begins; a log that is not named is read from its beginning.
        logs: what the logs hold now, by name.
        most_rows: how many rows the batch may have; None: any number. It takes at least one row of each log that has something new.
    """
    end = dict(start)
    waiting = {name: ledgers for name, ledgers in logs.items() if ledgers.end.ledger >= 0 and start.get(name, Place(-1, -1)) < ledgers.end}
    for name, ledgers in waiting.items():
        end[name] = ledgers.end if most_rows is None else ledgers.after(start.get(name), max(1, most_rows // len(waiting)))
    return end
