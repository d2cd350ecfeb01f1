"""What it tells."""

from __future__ import annotations

from ..option import Kind, Option, ReadBy
from ..server import LogLevel

_SECTION = "What it tells"

OPTIONS = (
    Option(
        name="show_secrets",
        kind=Kind.SWITCH,
        help="Show the object storages' credentials in offload policies to everybody who may read.",
        section=_SECTION,
        default=False,
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="log_level",
        kind=Kind.CHOICE,
        help="How much to tell on standard error.",
        section=_SECTION,
        default=LogLevel.INFO.value,
        metavar="debug|info|warning|error",
        choices=tuple(each.value for each in LogLevel),
    ),
)
