"""JSON Web Tokens: what one says of itself, whether its signature holds, and what its claims say (RFC 7515, 7519).

``look`` believes nothing: it only tells which key is to be asked. Nothing of a token counts before ``verified`` has returned its claims.
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
"""Of a token: gRPC takes no more in the metadata of a call."""
MOST_ROLE = 256
"""Characters of a role."""
_PARTS = 3
_JWS = jwt.PyJWS()
_UNREADABLE = "The token is no JSON Web Token that is signed."


class Look(NamedTuple):
    """What a token says of itself. Nothing of it is verified."""

    algorithm: str
    key_id: str
    """Which key has signed it; "": it does not say."""
    issuer: str
    """Who has; "": it does not say."""


def look(token: str) -> Look:
    """What a token says of itself.

    Raises:
        PolicyError: CREDENTIALS_INVALID, it can't be read, or asks for what is not understood here.
    """
    if len(token) > MOST_CHARACTERS:
        raise invalid(f"The token has more than {MOST_CHARACTERS:,} characters.")
    parts = token.split(".")
    if len(parts) != _PARTS or not token.isascii():
        raise invalid(_UNREADABLE)
    header, claims = _read(parts[0]), _read(parts[1])
    if "crit" in header or "b64" in header:
        raise invalid("The token's header asks for something that is not understood here.")
    return Look(_text(header.get("alg")), _text(header.get("kid")), _text(claims.get("iss")))


def verified(token: str, key: Key) -> dict[str, Any]:
    """The claims of a token that a key has signed. Nothing is said of its times.

    Raises:
        PolicyError: CREDENTIALS_INVALID, it was not.
    """
    try:
        payload = _JWS.decode_complete(token, key.material, algorithms=list(key.algorithms))["payload"]
    except jwt.InvalidAlgorithmError as error:
        raise invalid("The token is signed with an algorithm that is not taken here.") from error
    except jwt.InvalidSignatureError as error:
        raise invalid("The token's signature does not hold: it was signed with another key, or changed.") from error
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise invalid(_UNREADABLE) from error
    return _object(payload)


def times(claims: Mapping[str, Any], now: float, leeway: float) -> tuple[float, float]:
    """From when on a token of these claims holds, and until when, the leeway included, in seconds since 1970; infinite: it does not say.

    Raises:
        PolicyError: CREDENTIALS_EXPIRED, it has; CREDENTIALS_INVALID, its time has not come, or its times are no numbers.
    """
    begins, ends = _time(claims, "nbf"), _time(claims, "exp")
    since, until = -math.inf if begins is None else begins - leeway, math.inf if ends is None else ends + leeway
    if now >= until:
        raise expired()
    if now < since:
        raise invalid("The token is not valid yet: its nbf is in the future, or a clock is wrong.")
    return since, until


def role(claims: Mapping[str, Any], claim: str) -> str:
    """The role in a claim; of a list of them the first, as brokers take it (``AuthenticationProviderToken``).

    Raises:
        PolicyError: CREDENTIALS_INVALID, there is none that can be told in a line.
    """
    said = claims.get(claim)
    if isinstance(said, list) and said:
        said = said[0]
    if not isinstance(said, str) or not said:
        raise invalid(f"The token has no role in its claim {claim}.")
    if not is_role(said):
        raise invalid(f"The role in the token's claim {claim} has more than {MOST_ROLE} characters, or some that can't be printed.")
    return said


def is_role(text: str) -> bool:
    """Whether a text can be a role: it stands in lines of logs, in metadata and in files."""
    return 0 < len(text) <= MOST_ROLE and text.isprintable() and text == text.strip()


def check_audience(claims: Mapping[str, Any], claim: str, wanted: frozenset[str]) -> None:
    """Checks that a token was made for one of the wanted audiences; its claim is a text or a list of them.

    Raises:
        PolicyError: CREDENTIALS_INVALID, it was not.
    """
    said = claims.get(claim)
    audiences = said if isinstance(said, list) else [said]
    if not any(isinstance(each, str) and each in wanted for each in audiences):
        raise invalid(f"The token was made for another audience: its claim {claim} does not name this service's.")


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
    """A text of a header; whatever else stands there is nobody's."""
    return said if isinstance(said, str) else ""
