"""The options of repairs: in which namespaces, and whether any are published."""

from __future__ import annotations

from ..option import Kind, Option, ReadBy

_SECTION = "Repairs"

OPTIONS = (
    Option(
        name="guard",
        kind=Kind.LIST,
        help="Namespaces that are kept loaded and repaired, though nobody asks for them; * stands for any characters.",
        section=_SECTION,
        default=(),
        default_text="none",
        example='["acme/*"]',
        metavar="NAMESPACE",
        argument=True,
    ),
    Option(
        name="read_only",
        kind=Kind.SWITCH,
        help="Write nothing: refuse updates, and only tell of repairs.",
        section=_SECTION,
        default=False,
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="report_only",
        kind=Kind.SWITCH,
        help="Write nothing: tell what the guard command would heal.",
        section=_SECTION,
        default=False,
        read_by=ReadBy.GUARD,
    ),
    Option(
        name="pause_repairs",
        kind=Kind.SWITCH,
        help="Begin with repairs paused; SIGUSR2 resumes, SIGUSR1 pauses again.",
        section=_SECTION,
        default=False,
    ),
)
