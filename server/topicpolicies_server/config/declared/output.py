"""The options of what the server reveals and logs: secrets, log lines, the record of calls."""

from __future__ import annotations

from ..call_record import Recorded
from ..option import Kind, Option, ReadBy
from ..server import LogFormat, LogLevel

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
    Option(
        name="log_format",
        kind=Kind.CHOICE,
        help="How lines on standard error are written, whoever writes them.",
        section=_SECTION,
        default=LogFormat.TEXT.value,
        metavar="text|logfmt|json",
        choices=tuple(each.value for each in LogFormat),
    ),
    Option(
        name="call_record",
        kind=Kind.CHOICE,
        help="Which calls are recorded, a line each: who, what, which topic, outcome, duration, request id.",
        section=_SECTION,
        default=Recorded.CHANGES.value,
        metavar="changes|all|off",
        choices=("changes", "all", "off"),
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="call_record_file",
        kind=Kind.FILE,
        help="Where calls are recorded; - is standard error. A file that is moved away is begun anew.",
        section=_SECTION,
        default_text="standard error",
        example='"calls.log"',
        metavar="FILE|-",
        read_by=ReadBy.SERVE,
    ),
)
