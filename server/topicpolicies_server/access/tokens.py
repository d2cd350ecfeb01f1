"""JSON Web Tokens (RFC 7515, 7519): what a token says unverified, its verified claims, and the role in them. And Pulsar's own tokens.

Pulsar's tokens are signed with a key that the server has, and verified as brokers do (``AuthenticationProviderToken``). While one key
replaces another there are two, and tokens of either are valid.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jwt

from ..config import TokenConfig
from ..core.errors import PolicyError
from ..core.reasons import Reason
from .caller import Caller, Way, expired, invalid
from .keys import Key

MOST_ROLE = 256
NOT_A_ROLE = f"has more than {MOST_ROLE} characters, some that can't be printed, or blanks around it"
"""What is wrong with a text that ``is_role`` does not accept."""
_DEFAULTS = TokenConfig()
_UNREADABLE = "The token is not a signed JSON Web Token."
_NOT_A_TOKEN = (jwt.PyJWTError, ValueError, TypeError, RecursionError)


class UnverifiedClaims(NamedTuple):
    """What a token says about itself. Nothing of it is verified: it only tells which key is needed."""

    algorithm: str
    key_id: str
    """The id of the key that is said to have signed the token; "": the token does not say."""
    issuer: str
    """The issuer that is said to have signed the token; "": the token does not say."""


def read_unverified(token: str) -> UnverifiedClaims:
    """Reads what a token says about itself.

    Raises:
        PolicyError: CREDENTIALS_INVALID: the token can't be read.
    """
    try:
        said = jwt.decode_complete(token, options={"verify_signature": False})
    except _NOT_A_TOKEN as error:
        raise invalid(_UNREADABLE) from error
    algorithm, key_id, issuer = said["header"].get("alg"), said["header"].get("kid"), said["payload"].get("iss")
    return UnverifiedClaims(*(each if isinstance(each, str) else "" for each in (algorithm, key_id, issuer)))


def verified(token: str, key: Key, leeway: float, require: Sequence[str] = ()) -> dict[str, Any]:
    """Returns the claims of a token that a key has signed, and that is valid at this time, give or take ``leeway`` seconds.

    ``require``: claims that it must have.

    Raises:
        PolicyError: CREDENTIALS_EXPIRED: the token has expired; CREDENTIALS_INVALID: it is not valid for another reason.
    """
    options: Any = {"verify_aud": False, "verify_iat": False, "verify_sub": False, "verify_jti": False, "require": list(require)}
    try:
        return jwt.decode(token, key.material, algorithms=key.algorithms, leeway=leeway, options=options)
    except jwt.ExpiredSignatureError as error:
        raise expired() from error
    except jwt.ImmatureSignatureError as error:
        raise invalid("The token is not valid yet: its nbf is in the future, or a clock is wrong.") from error
    except jwt.MissingRequiredClaimError as error:
        raise invalid(f"The token has no claim {error.claim}.") from error
    except jwt.InvalidAlgorithmError as error:
        raise invalid("The token is signed with an algorithm that this server does not accept.") from error
    except jwt.InvalidSignatureError as error:
        raise invalid("The token's signature is invalid: the token was signed with another key, or changed.") from error
    except _NOT_A_TOKEN as error:
        raise invalid(_UNREADABLE) from error


def caller_of(claims: Mapping[str, Any], role_claim: str, way: Way, leeway: float) -> Caller:
    """Returns the caller that verified claims name; of a list of roles the first, as brokers take it (``AuthenticationProviderToken``).

    Raises:
        PolicyError: CREDENTIALS_INVALID: there is no role, or one that ``is_role`` does not accept.
    """
    said = claims.get(role_claim)
    if isinstance(said, list) and said:
        said = said[0]
    if not isinstance(said, str) or not said:
        raise invalid(f"The token has no role in its claim {role_claim}.")
    if not is_role(said):
        raise invalid(f"The role in the token's claim {role_claim} {NOT_A_ROLE}.")
    return Caller(said, way, expires_at=int(claims["exp"]) + leeway if "exp" in claims else math.inf)


def check_audience(claims: Mapping[str, Any], claim: str, wanted: Sequence[str]) -> None:
    """Checks that a token was made for one of the wanted audiences; its claim is a text or a list of texts.

    Raises:
        PolicyError: CREDENTIALS_INVALID: the token was made for other audiences.
    """
    said = claims.get(claim)
    audiences = said if isinstance(said, list) else [said]
    if not any(isinstance(each, str) and each in wanted for each in audiences):
        raise invalid(f"The token is for another audience: its claim {claim} does not name this service's.")


def is_role(text: str) -> bool:
    """Whether a text can be a role, which must fit into log lines, metadata and files."""
    return 0 < len(text) <= MOST_ROLE and text.isprintable() and text == text.strip()


class Tokens:
    """Verifies Pulsar's tokens."""

    def __init__(self, keys: tuple[Key, ...], config: TokenConfig = _DEFAULTS, leeway: float = 0.0) -> None:
        self.keys = keys
        """The keys in force, at least one when a token comes: tokens that were signed with other keys are not valid."""
        self._config = config
        self._leeway = leeway

    def caller(self, token: str) -> Caller:
        """Returns the caller that a token names.

        Raises:
            PolicyError: UNAUTHENTICATED: the token is not valid, or not any more.
        """
        claims = self._verified(token)
        if self._config.audience_claim:
            check_audience(claims, self._config.audience_claim, (self._config.audience,))
        return caller_of(claims, self._config.role_claim, Way.TOKEN, self._leeway)

    def _verified(self, token: str) -> dict[str, Any]:
        *others, last = self.keys
        for key in others:
            try:
                return verified(token, key, self._leeway)
            except PolicyError as error:
                if error.reason is Reason.CREDENTIALS_EXPIRED:
                    raise
        return verified(token, last, self._leeway)
