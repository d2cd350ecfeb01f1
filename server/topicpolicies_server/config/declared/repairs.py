"""The options of repairs: in which namespaces, and whether any are published."""

from __future__ import annotations

from ..option import Kind, Option, ReadBy

_SECTION = "Repairs"

OPTIONS = (
    Option(
        name="guard",
        kind=Kind.LIST,
        help="Namespaces that are kept loaded and repaired, even if no client uses them; * stands for any characters.",
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
        help="Write nothing: refuse updates, and only report repairs.",
        section=_SECTION,
        default=False,
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="report_only",
        kind=Kind.SWITCH,
        help="Write nothing: report what the guard command would repair.",
        section=_SECTION,
        default=False,
        read_by=ReadBy.GUARD,
    ),
    Option(
        name="pause_repairs",
        kind=Kind.SWITCH,
        help="Begin with repairs paused. SIGUSR2 resumes them, SIGUSR1 pauses them again.",
        section=_SECTION,
        default=False,
    ),
)
