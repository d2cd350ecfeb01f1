"""How much one batch of a stream takes: a fair share of each log that has something new."""

from __future__ import annotations

from collections.abc import Mapping

from .brokers import Ledgers, Place


def admit(start: Mapping[str, Place], logs: Mapping[str, Ledgers], most_rows: int | None) -> dict[str, Place]:
    """Where the next batch ends in each log.

    Args:
        start: where it begins; logs that are not named begin at their beginning.
        logs: what they hold now.
        most_rows: how many rows it may take; None: all there are. At least one row of each log is taken.
    """
    end = dict(start)
    waiting = {name: ledgers for name, ledgers in logs.items() if ledgers.end.ledger >= 0 and start.get(name, Place(-1, -1)) < ledgers.end}
    for name, ledgers in waiting.items():
        end[name] = ledgers.end if most_rows is None else ledgers.after(start.get(name), max(1, most_rows // len(waiting)))
    return end
