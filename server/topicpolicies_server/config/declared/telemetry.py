"""The options of traces for a collector."""

from __future__ import annotations

from ..option import Kind, Option, ReadBy

_SECTION = "Traces for a collector"

OPTIONS = (
    Option(
        name="otlp_endpoint",
        kind=Kind.TEXT,
        help="A collector that accepts OTLP over HTTP, to which spans of calls are sent.",
        section=_SECTION,
        default="",
        default_text="nowhere",
        example='"http://localhost:4318"',
        metavar="URL",
        url=True,
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="otlp_trace_ratio",
        kind=Kind.NUMBER,
        help="The share of the calls without a trace of their caller that begin one. Other calls are traced if their caller's span is.",
        section=_SECTION,
        default=0.01,
        metavar="RATIO",
        least=0,
        most=1,
        read_by=ReadBy.SERVE,
    ),
)
