"""Who calls: the principal that was verified, how, and for whom it speaks."""

from __future__ import annotations

import enum
import math
from typing import NamedTuple


class Way(enum.Enum):
    """How a principal was verified. The values are stable: lines of the log and metrics have them."""

    NONE = "none"
    """It was not: nothing was asked for."""
    TOKEN = "token"  # noqa: S105 (no secret)
    """A JSON Web Token, as Pulsar's brokers verify it (``AuthenticationProviderToken``)."""
    OIDC = "oidc"
    """A token of an OpenID Connect issuer (PIP-257)."""
    CERTIFICATE = "certificate"
    """A client certificate of an authority that the server trusts."""

    __hash__ = object.__hash__  # as that of permissions (``authority``): callers are looked up


class Caller(NamedTuple):
    """Who makes a call."""

    principal: str
    """Whose credentials they are; "": nobody's."""
    way: Way
    """How that was verified."""
    speaks_for: str = ""
    """For whom a proxy says that it calls; "": for itself. The proxy was verified, this one was not."""
    expires_at: float = math.inf
    """When its credentials do, in seconds since 1970; infinite: they don't."""
    begins_at: float = -math.inf
    """From when on its credentials hold: a clock can be set back to before that."""

    @property
    def role(self) -> str:
        """Whose permissions are asked for: the one whom a proxy speaks for, or else the principal."""
        return self.speaks_for or self.principal


NOBODY = Caller("", Way.NONE)
"""Who calls a server that verifies nobody."""
