"""The options of authorization: who may do what, and who decides it."""

from __future__ import annotations

from ..authorization import CACHE_SECONDS
from ..option import Kind, Option, ReadBy

_SECTION = "Who may do what"

OPTIONS = (
    Option(
        name="authorization",
        kind=Kind.FILE,
        help="A file (TOML) of roles and their permissions. It is read again when it changes.",
        section=_SECTION,
        default_text="none",
        example='"roles.toml"',
        metavar="FILE",
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="authorization_by_brokers",
        kind=Kind.SWITCH,
        help="Let Pulsar's brokers decide, by their superusers and the admin roles of their tenants.",
        section=_SECTION,
        default=False,
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="superuser_roles",
        kind=Kind.LIST,
        help="Roles that may do everything, in addition to the brokers' superusers.",
        section=_SECTION,
        default=(),
        default_text="none",
        example='["admin"]',
        metavar="ROLE,...",
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="namespace_roles_may_read",
        kind=Kind.SWITCH,
        help="Let roles that may produce or consume in a namespace read and watch its policies, which the brokers' admin API does not.",
        section=_SECTION,
        default=False,
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="authorization_cache_seconds",
        kind=Kind.NUMBER,
        help="How long a broker's answer about a role is used. An answer in use is requested again before that.",
        section=_SECTION,
        default=CACHE_SECONDS,
        metavar="SECONDS",
        least=1,
        most=3_600,
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="allow_authenticated",
        kind=Kind.SWITCH,
        help="Let every authenticated caller do everything.",
        section=_SECTION,
        default=False,
        read_by=ReadBy.SERVE,
    ),
)
