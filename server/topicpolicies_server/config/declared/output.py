"""The options of what the server reveals and logs: secrets, log lines, the record of calls."""

from __future__ import annotations

from ..call_record import Recorded
from ..option import Kind, Option, ReadBy
from ..server import LogFormat, LogLevel

_SECTION = "Logging and secrets"

OPTIONS = (
    Option(
        name="show_secrets",
        kind=Kind.SWITCH,
        help="Show the object storages' credentials in offload policies to every caller who may read.",
        section=_SECTION,
        default=False,
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="log_level",
        kind=Kind.CHOICE,
        help="The least severe level that is logged on standard error.",
        section=_SECTION,
        default=LogLevel.INFO.value,
        metavar="debug|info|warning|error",
        choices=tuple(each.value for each in LogLevel),
    ),
    Option(
        name="log_format",
        kind=Kind.CHOICE,
        help="The format of the lines of the log on standard error.",
        section=_SECTION,
        default=LogFormat.TEXT.value,
        metavar="text|logfmt|json",
        choices=tuple(each.value for each in LogFormat),
    ),
    Option(
        name="call_record",
        kind=Kind.CHOICE,
        help="Which calls are recorded, one line each: caller, method, topic, outcome, duration, request id.",
        section=_SECTION,
        default=Recorded.CHANGES.value,
        metavar="changes|all|off",
        choices=("changes", "all", "off"),
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="call_record_file",
        kind=Kind.FILE,
        help="The file in which calls are recorded; - is standard error. After the file is moved away, a new one is created.",
        section=_SECTION,
        default_text="standard error",
        example='"calls.log"',
        metavar="FILE|-",
        read_by=ReadBy.SERVE,
    ),
)
