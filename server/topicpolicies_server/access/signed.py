"""JSON Web Tokens: reading a token, verifying its signature, and checking its claims (RFC 7515, 7519).

``read_unverified`` verifies nothing: it only finds out which key is needed. Nothing of a token counts before ``verified`` has returned its
claims.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jwt

from .keys import Key
from .refusals import expired, invalid

MOST_CHARACTERS = 8_192
"""The longest token: gRPC accepts no more metadata in a call."""
MOST_ROLE = 256
"""The most characters of a role."""
NOT_A_ROLE = f"has more than {MOST_ROLE} characters, some that can't be printed, or blanks around it"
"""What is wrong with a text that ``is_role`` does not accept."""
_PARTS = 3
_JWS = jwt.PyJWS()
_UNREADABLE = "The token is not a signed JSON Web Token."


class UnverifiedClaims(NamedTuple):
    """What a token says about itself. Nothing of it is verified."""

    algorithm: str
    key_id: str
    """The id of the key that is said to have signed the token; "": the token does not say."""
    issuer: str
    """The issuer that is said to have signed the token; "": the token does not say."""


def read_unverified(token: str) -> UnverifiedClaims:
    """Reads what a token says about itself.

    Raises:
        PolicyError: CREDENTIALS_INVALID: the token can't be read, or requires an extension that is not known here.
    """
    if len(token) > MOST_CHARACTERS:
        raise invalid(f"The token has more than {MOST_CHARACTERS:,} characters.")
    parts = token.split(".")
    if len(parts) != _PARTS or not token.isascii():
        raise invalid(_UNREADABLE)
    header, claims = _read(parts[0]), _read(parts[1])
    if "crit" in header or "b64" in header:
        raise invalid("The token's header requires an extension that this server does not know.")
    return UnverifiedClaims(_text(header.get("alg")), _text(header.get("kid")), _text(claims.get("iss")))


def verified(token: str, key: Key) -> dict[str, Any]:
    """Returns the claims of a token that a key has signed. Their times are not checked.

    Raises:
        PolicyError: CREDENTIALS_INVALID: the key has not signed the token.
    """
    try:
        payload = _JWS.decode_complete(token, key.material, algorithms=list(key.algorithms))["payload"]
    except jwt.InvalidAlgorithmError as error:
        raise invalid("The token is signed with an algorithm that this server does not accept.") from error
    except jwt.InvalidSignatureError as error:
        raise invalid("The token's signature is invalid: the token was signed with another key, or changed.") from error
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise invalid(_UNREADABLE) from error
    return _object(payload)


def times(claims: Mapping[str, Any], now: float, leeway: float) -> tuple[float, float]:
    """Returns from when until when a token with these claims is valid, leeway included, in seconds since 1970; infinite: it does not say.

    Raises:
        PolicyError: CREDENTIALS_EXPIRED: the token has expired; CREDENTIALS_INVALID: it is not valid yet, or its times are no numbers.
    """
    begins, ends = _time(claims, "nbf"), _time(claims, "exp")
    since, until = -math.inf if begins is None else begins - leeway, math.inf if ends is None else ends + leeway
    if now >= until:
        raise expired()
    if now < since:
        raise invalid("The token is not valid yet: its nbf is in the future, or a clock is wrong.")
    return since, until


def role(claims: Mapping[str, Any], claim: str) -> str:
    """Returns the role in a claim; of a list the first, as brokers take it (``AuthenticationProviderToken``).

    Raises:
        PolicyError: CREDENTIALS_INVALID: there is no role, or one that ``is_role`` does not accept.
    """
    said = claims.get(claim)
    if isinstance(said, list) and said:
        said = said[0]
    if not isinstance(said, str) or not said:
        raise invalid(f"The token has no role in its claim {claim}.")
    if not is_role(said):
        raise invalid(f"The role in the token's claim {claim} {NOT_A_ROLE}.")
    return said


def is_role(text: str) -> bool:
    """Whether a text can be a role, which must fit into log lines, metadata and files."""
    return 0 < len(text) <= MOST_ROLE and text.isprintable() and text == text.strip()


def check_audience(claims: Mapping[str, Any], claim: str, wanted: frozenset[str]) -> None:
    """Checks that a token was made for one of the wanted audiences; its claim is a text or a list of texts.

    Raises:
        PolicyError: CREDENTIALS_INVALID: the token was made for other audiences.
    """
    said = claims.get(claim)
    audiences = said if isinstance(said, list) else [said]
    if not any(isinstance(each, str) and each in wanted for each in audiences):
        raise invalid(f"The token is for another audience: its claim {claim} does not name this service's.")


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    said = claims.get(name)
    if said is None:
        return None
    try:
        found = float(said) if isinstance(said, int | float) and not isinstance(said, bool) else math.nan
    except OverflowError:
        found = math.nan
    if not math.isfinite(found):
        raise invalid(f"The token's {name} is not a number of seconds.")
    return found


def _read(part: str) -> dict[str, Any]:
    try:
        return _object(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, binascii.Error) as error:
        raise invalid(_UNREADABLE) from error


def _object(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise invalid(_UNREADABLE) from error
    if not isinstance(found, dict):
        raise invalid(_UNREADABLE)
    return found


def _text(said: object) -> str:
    """Returns a field of a token if it is a text, else ""."""
    return said if isinstance(said, str) else ""
