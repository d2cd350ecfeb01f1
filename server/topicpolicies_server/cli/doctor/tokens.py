"""Judges tokens, the sidecar's own for its broker and the client's for the sidecar: whether they can be read, and when they expire.

Signatures are not verified here: whether a token is accepted is checked by a request to the broker or the sidecar.
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
    """Returns the claims of a JSON Web Token, unverified; None: the text is no such token."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def judged_token(token: str, now: float) -> Finding:
    """Judges whether a token is valid now, and for how long.

    Args:
        token: the token, of which the finding reveals only the subject and the times.
        now: the time, in seconds since 1970.
    """
    claims = claims_of(token)
    if claims is None:
        return ok("it is not a JSON Web Token: only the broker knows when it expires")
    role = f"role {claims['sub']}" if isinstance(claims.get("sub"), str) else "no subject"
    ends, begins = claims.get("exp"), claims.get("nbf")
    if isinstance(begins, int | float) and begins > now:
        return failed(f"{role}: it is valid only in {begins - now:.0f} s")
    if not isinstance(ends, int | float):
        return ok(f"{role}; it does not expire")
    if ends <= now:
        return failed(f"{role}: it expired {_span(now - ends)} ago")
    if ends - now < _SOON_SECONDS:
        return warning(f"{role}: it expires in {_span(ends - now)}")
    return ok(f"{role}; it expires in {_span(ends - now)}")


class ShownToken:
    """The token that this client sends to the server."""

    def __init__(self, path: Path | None) -> None:
        """``path``: the file of the token; None: the client has no token."""
        self.token: TokenFile | None = None
        """The token as ``Client`` takes it; None: there is none, or it can't be read."""
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
        """Returns the check of the token; none if the client has no token."""

        async def run() -> Finding:
            return judged_token(self.token(), time.time()) if self.token is not None else failed(self._problem)

        if self._path is None:
            return []
        check = Check(
            name="server.token",
            holds="your token can be read, and has not expired",
            why="A server that authenticates callers refuses calls without a token.",
            run=run,
            remedy="Put a valid token into the file of --token-file.",
        )
        return [check]


def _span(seconds: float) -> str:
    return f"{seconds / 86_400:.1f} days" if seconds > 86_400 else f"{seconds / 60:.0f} minutes"
