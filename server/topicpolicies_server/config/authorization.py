"""Who decides what callers may do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .files import unreadable
from .logs import LogConfig, PulsarLogConfig
from .option import option


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationConfig:
    """Who decides what callers may do in a namespace."""

    file: Path | None = option(None, name="authorization", example='"roles.toml"')
    """A file (TOML) of roles and their permissions. It is read again when it changes."""
    brokers: bool = option(False, name="authorization_by_brokers")
    """Let Pulsar's brokers decide, by their superusers and the admin roles of their tenants."""
    superuser_roles: tuple[str, ...] = option((), example='["admin"]', metavar="ROLE,...")
    """Roles that may do everything, in addition to the brokers' superusers."""
    namespace_roles_may_read: bool = option(False)
    """Let roles that may produce or consume in a namespace read and watch its policies, which the brokers' admin API does not."""
    cache_seconds: float = option(30.0, name="authorization_cache_seconds", least=1, most=3_600, metavar="SECONDS")
    """How long a broker's answer about a role is used. An answer in use is requested again before that."""
    allow_authenticated: bool = option(False)
    """Let every authenticated caller do everything."""

    @property
    def enabled(self) -> bool:
        """Whether there is authorization: by a file, or by brokers."""
        return self.file is not None or self.brokers

    def problems(self, log: LogConfig, *, authenticated: bool, show_secrets: bool) -> list[str]:
        """Returns what is wrong, a sentence each.

        Args:
            log: where the change logs are.
            authenticated: whether callers are authenticated.
            show_secrets: ``ServerConfig.show_secrets``.
        """
        problems = unreadable("authorization", self.file)
        if self.file is not None and self.brokers:
            problems.append(
                "Give either --authorization FILE or --authorization-by-brokers, not both: one of them decides what callers may do."
            )
        if self.brokers and not isinstance(log, PulsarLogConfig):
            problems.append("--authorization-by-brokers goes with --pulsar; with the embedded log give --authorization FILE.")
        if not self.brokers and (self.superuser_roles or self.namespace_roles_may_read):
            problems.append(
                "--superuser-roles and --namespace-roles-may-read go with --authorization-by-brokers; a file names its own roles."
            )
        if self.enabled and self.allow_authenticated:
            problems.append("--allow-authenticated lets every authenticated caller do everything: remove it, or the authorization.")
        if self.enabled and show_secrets:
            problems.append(
                "--show-secrets shows secrets to every caller who may read: with authorization grant the permission secrets instead."
            )
        if self.enabled and not authenticated:
            problems.append("Authorization needs authenticated callers: give --authentication-providers.")
        if authenticated and not self.enabled and not self.allow_authenticated:
            problems.append(
                "Callers are authenticated, but nothing defines what they may do: give --authorization FILE, --authorization-by-brokers"
                " beside Pulsar, or --allow-authenticated if each of them may do everything."
            )
        return problems
