"""Callers, their permissions, and the errors for those whose credentials are not accepted.

No message quotes credentials: they would get into the callers' logs.
"""

from __future__ import annotations

import enum
import math
from typing import NamedTuple, TypeAlias

from ..core.errors import Kind, PolicyError
from ..core.reasons import Reason

ORIGINAL_KEY = "topicpolicies-original-principal"
"""The metadata in which a proxy names the principal for whom it calls."""


class Permission(enum.StrEnum):
    """A permission in a namespace. The values are the words that files, error messages and log lines use."""

    READ = "read"
    """GetPolicy, ListPolicies, GetEffectivePolicy."""
    WATCH = "watch"
    """WatchPolicies."""
    CHANGE = "change"
    """UpdatePolicy, DeletePolicy, BatchUpdatePolicies."""
    HISTORY = "history"
    """``PolicyHistoryService``, and, beside ``WATCH``, watches of every change."""
    OVERRIDE = "override"
    """Changing policies beyond the constraints of the server's declared policies."""
    SECRETS = "secrets"
    """Seeing the credentials of object storages in offload policies, in whatever else the caller may see."""


Granted: TypeAlias = frozenset[Permission]
"""The permissions of a caller in a namespace, all of them."""
NOTHING: Granted = frozenset()
EVERYTHING: Granted = frozenset(Permission)


class Way(enum.StrEnum):
    """How a principal was verified. The values are stable: log lines and metrics use them."""

    NONE = "none"
    """The principal was not verified: the server asks for no credentials."""
    TOKEN = "token"  # noqa: S105 (no secret)
    """A JSON Web Token, as Pulsar's brokers verify it (``AuthenticationProviderToken``)."""
    OIDC = "oidc"
    """A token of an OpenID Connect issuer (PIP-257)."""
    CERTIFICATE = "certificate"
    """A client certificate of an authority that the server trusts."""


class Caller(NamedTuple):
    """Who makes a call."""

    principal: str
    """The principal whose credentials were given; "": there is none."""
    way: Way
    """How the principal was verified."""
    speaks_for: str = ""
    """The principal for whom a proxy says that it calls; "": it calls for itself. The proxy was verified, this principal was not."""
    expires_at: float = math.inf
    """When the credentials expire, in seconds since 1970; infinite: never."""

    @property
    def role(self) -> str:
        """The role for which the call is made: the principal for whom a proxy speaks, or else the principal itself."""
        return self.speaks_for or self.principal


NOBODY = Caller("", Way.NONE)
"""The caller of every call to a server that asks for no credentials."""


def invalid(why: str) -> PolicyError:
    """Returns the error for invalid credentials. ``why``: a sentence."""
    return PolicyError(Kind.UNAUTHENTICATED, Reason.CREDENTIALS_INVALID, why)


def expired(what: str = "token") -> PolicyError:
    """Returns the error for credentials that have expired."""
    return PolicyError(Kind.UNAUTHENTICATED, Reason.CREDENTIALS_EXPIRED, f"The {what} has expired: call with a new one.")
