"""The options of checkpoints: whether and where they are kept."""

from __future__ import annotations

from ..option import Kind, Option, ReadBy

_SECTION = "Checkpoints"

OPTIONS = (
    Option(
        name="checkpoints",
        kind=Kind.FOLDER,
        help="Saved views, from which a start continues instead of reading the whole logs: a directory, created if missing, with a file"
        " for each namespace. It is a cache.",
        section=_SECTION,
        default_text="beside ``data``; none with ``pulsar``",
        example='"checkpoints"',
        metavar="FOLDER",
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
