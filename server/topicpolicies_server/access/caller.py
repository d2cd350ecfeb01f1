"""The caller: the principal that was verified, how it was verified, and for whom it speaks."""

from __future__ import annotations

import enum
import math
from typing import NamedTuple


class Way(enum.Enum):
    """How a principal was verified. The values are stable: log lines and metrics use them."""

    NONE = "none"
    """The principal was not verified: the server asks for no credentials."""
    TOKEN = "token"  # noqa: S105 (no secret)
    """A JSON Web Token, as Pulsar's brokers verify it (``AuthenticationProviderToken``)."""
    OIDC = "oidc"
    """A token of an OpenID Connect issuer (PIP-257)."""
    CERTIFICATE = "certificate"
    """A client certificate of an authority that the server trusts."""

    __hash__ = object.__hash__  # for the reason in ``permission.Permission``: callers are keys of dictionaries


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
    begins_at: float = -math.inf
    """From when on the credentials are valid, in seconds since 1970: a clock can be set back to before that."""

    @property
    def role(self) -> str:
        """The role for which the call is made: the principal for whom a proxy speaks, or else the principal itself."""
        return self.speaks_for or self.principal


NOBODY = Caller("", Way.NONE)
"""The caller of every call to a server that asks for no credentials."""
