"""The options of checkpoints: whether and where they are kept."""

from __future__ import annotations

from ..option import Kind, Option, ReadBy

_SECTION = "Checkpoints"

OPTIONS = (
    Option(
        name="checkpoints",
        kind=Kind.FILE,
        help="Saved views, from which a start continues instead of reading the whole logs: one SQLite file, created if missing."
        " It is a cache.",
        section=_SECTION,
        default_text="beside ``data``; none with ``pulsar``",
        example='"checkpoints.db"',
        metavar="FILE.db",
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="no_checkpoints",
        kind=Kind.SWITCH,
        help="Keep no checkpoints: each start reads the logs from their beginning.",
        section=_SECTION,
        default=False,
        read_by=ReadBy.SERVE,
    ),
)
