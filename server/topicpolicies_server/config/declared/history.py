"""The options of the history: where it is kept, and how much of it."""

from __future__ import annotations

from ..option import Kind, Option, ReadBy

_SECTION = "History"

OPTIONS = (
    Option(
        name="history",
        kind=Kind.FILE,
        help="The server's record of all changes: one SQLite file, created if missing.",
        section=_SECTION,
        default_text="beside ``data``; none with ``pulsar``",
        example='"history.db"',
        metavar="FILE.db",
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="no_history",
        kind=Kind.SWITCH,
        help="Keep no history.",
        section=_SECTION,
        default=False,
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="history_days",
        kind=Kind.WHOLE,
        help="How many days entries are kept; older ones are deleted.",
        section=_SECTION,
        default=366,
        metavar="N",
        least=1,
        most=36_600,
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="history_megabytes",
        kind=Kind.WHOLE,
        help="The greatest size of the file in MiB; beyond it the oldest entries are deleted.",
        section=_SECTION,
        default=1024,
        metavar="N",
        least=1,
        most=1 << 24,
        read_by=ReadBy.SERVE,
    ),
)
