"""Tokens, the sidecar's own for its broker and the caller's for the sidecar: whether they can be read, and when they end.

Whether they are taken is for those to say whom they are shown to.
"""

from __future__ import annotations

import base64
import binascii
import json
import time
from pathlib import Path
from typing import Any

from topicpolicies import InvalidArgument, TokenFile

from .checks import Check, Finding, failed, ok, warning

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


class ShownToken:
    """What this client shows the server."""

    def __init__(self, path: Path | None) -> None:
        """``path``: the file of its token; None: it has none."""
        self.token: TokenFile | None = None
        """None: there is none, or it can't be read."""
        self._path = path
        self._problem = ""
        if path is not None:
            try:
                self.token = TokenFile(path)
            except OSError as error:
                self._problem = f"{path}: {error.strerror or error}"
            except InvalidArgument as error:
                self._problem = error.message

    def checks(self) -> list[Check]:
        """Whether it can be shown; nothing is asked where there is none."""

        async def run() -> Finding:
            return judged_token(self.token(), time.time()) if self.token is not None else failed(self._problem)

        if self._path is None:
            return []
        check = Check(
            name="server.token",
            holds="your token can be read, and is in force",
            why="Where the server asks who calls, it refuses who shows none.",
            run=run,
            remedy="Put a token that is in force into the file of --token-file.",
        )
        return [check]


def _span(seconds: float) -> str:
    return f"{seconds / 86_400:.1f} days" if seconds > 86_400 else f"{seconds / 60:.0f} minutes"
