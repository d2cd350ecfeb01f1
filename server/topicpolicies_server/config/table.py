"""Every option of a server and of a guard: those of all sections, in the order in which they are shown."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable
from functools import cache

from .authentication import AuthenticationConfig, OidcConfig, Providers, TokenConfig
from .authorization import AuthorizationConfig
from .limits import Limits
from .logs import EmbeddedLogConfig, OAuth2Config, PulsarLogConfig
from .option import PREFIX, Option, ReadBy, options_of
from .server import (
    AccessLogConfig,
    CheckpointsConfig,
    GuardConfig,
    HistoryConfig,
    Omitted,
    ProcessConfig,
    ServerConfig,
    TelemetryConfig,
    TlsConfig,
)

_SECTIONS: dict[str, dict[type, ReadBy]] = {
    "Change log": {EmbeddedLogConfig: ReadBy.SERVE, PulsarLogConfig: ReadBy.BOTH, OAuth2Config: ReadBy.BOTH},
    "Network": {TlsConfig: ReadBy.SERVE},
    "Callers": {Providers: ReadBy.SERVE, TokenConfig: ReadBy.SERVE, OidcConfig: ReadBy.SERVE, AuthenticationConfig: ReadBy.SERVE},
    "Who may do what": {AuthorizationConfig: ReadBy.SERVE},
    "History": {HistoryConfig: ReadBy.SERVE},
    "Checkpoints": {CheckpointsConfig: ReadBy.SERVE},
    "Repairs": {},
    "Logging and secrets": {AccessLogConfig: ReadBy.SERVE},
    "Traces for a collector": {TelemetryConfig: ReadBy.SERVE},
    "Limits": {Limits: ReadBy.BOTH},
    "": {ProcessConfig: ReadBy.BOTH, ServerConfig: ReadBy.SERVE, GuardConfig: ReadBy.GUARD, Omitted: ReadBy.SERVE},
}
"""The dataclasses whose fields are options, by the heading that these are shown under; "": each field names its heading itself."""
FILE_VARIABLE = f"{PREFIX}CONFIG"
"""The environment variable that names the file of options."""
CLIENT_VARIABLES = tuple(
    f"{PREFIX}{name}"
    for name in (
        *("SERVER", "OUTPUT", "TIMEOUT", "ACTOR", "REASON", "TOKEN_FILE"),
        *("CLIENT_TLS", "CLIENT_TLS_CA", "CLIENT_TLS_CERTIFICATE", "CLIENT_TLS_KEY", "CLIENT_TLS_SERVER_NAME"),
    )
)
"""The environment variables of the commands that call a server; they share the prefix, and are no options of a server. ``TLS_CERTIFICATE``
and ``TLS_KEY`` are: hence ``CLIENT_``."""


@cache
def options() -> dict[str, Option]:
    """Returns all options by name, in the order in which they are shown."""
    found: dict[str, Option] = {}
    for heading, sections in _SECTIONS.items():
        for section, read_by in sections.items():
            for each in options_of(section).values():
                found.setdefault(each.name, dataclasses.replace(each, section=each.section or heading, read_by=each.read_by & read_by))
    headings = list(_SECTIONS)
    return {each.name: each for each in sorted(found.values(), key=lambda each: headings.index(each.section))}


def nearest(text: str, names: Iterable[str]) -> str | None:
    """Returns the name that was probably meant; None: no name is similar enough."""
    found = difflib.get_close_matches(text.lower().replace("-", "_").lstrip("_"), list(names), 1, 0.75)
    return found[0] if found else None
