"""The sidecar's own token for its broker: whether it can be read, and when it ends. Whether brokers take it is for them to say."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from .checks import Finding, failed, ok, warning

_SOON_SECONDS = 7 * 86_400.0


def claims_of(token: str) -> dict[str, Any] | None:
    """What a JSON Web Token claims, unverified; None: it is none."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def judged_token(token: str, now: float) -> Finding:
    """Whether a token is in force, and for how long.

    Args:
        token: its text, of which nothing is told but its subject and its times.
        now: seconds since 1970.
    """
    claims = claims_of(token)
    if claims is None:
        return ok("it is no JSON Web Token: only the broker knows when it ends")
    role = f"role {claims['sub']}" if isinstance(claims.get("sub"), str) else "no subject"
    ends, begins = claims.get("exp"), claims.get("nbf")
    if isinstance(begins, int | float) and begins > now:
        return failed(f"{role}: it begins in {begins - now:.0f} s only")
    if not isinstance(ends, int | float):
        return ok(f"{role}; it never ends")
    if ends <= now:
        return failed(f"{role}: it ended {_span(now - ends)} ago")
    if ends - now < _SOON_SECONDS:
        return warning(f"{role}: it ends in {_span(ends - now)}")
    return ok(f"{role}; it ends in {_span(ends - now)}")


def _span(seconds: float) -> str:
    return f"{seconds / 86_400:.1f} days" if seconds > 86_400 else f"{seconds / 60:.0f} minutes"
