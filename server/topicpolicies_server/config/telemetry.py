"""Traces for a collector: where they are sent, and how many."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from urllib.parse import urlsplit

from .address import Address
from .urls import meant_as_url


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryConfig:
    """What is sent to a collector by OTLP over HTTP."""

    endpoint: str
    """The URL of the collector, such as ``http://localhost:4318``."""
    trace_ratio: float = 0.01
    """The share of calls without a trace of their caller's that begin one: 0 to 1."""

    def problems(self) -> list[str]:
        """Returns what is wrong, a sentence each."""
        try:
            where = urlsplit(self.endpoint)
            wrong = where.scheme not in ("http", "https") or not where.hostname or where.port == 0 or bool(where.query or where.fragment)
        except ValueError:
            where, wrong = urlsplit(""), True
        if wrong:
            given = meant_as_url(self.endpoint)
            return [f'The collector must be a URL, such as http://localhost:4318, not "{given}" (--otlp-endpoint).']
        if where.username or where.password:
            return ["The URL of the collector must not have credentials: put them into the variable OTEL_EXPORTER_OTLP_HEADERS."]
        if not _is_installed():
            return ["--otlp-endpoint needs a package that is not installed: pip install 'topicpolicies[telemetry]'."]
        return []

    @property
    def in_the_clear(self) -> bool:
        """Whether spans are sent to another machine without TLS."""
        where = urlsplit(self.endpoint)
        return where.scheme == "http" and not Address(where.hostname or "", 1).loopback


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        return False
