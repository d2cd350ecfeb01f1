"""Tokens for the admin API from an issuer: OAuth 2.0 with client credentials, like pulsar-client's own for the binary protocol.

========  ==============================================  ========  ===========================================================
state     event                                           next      action
========  ==============================================  ========  ===========================================================
NONE      a caller needs a token                          ASKING    request one from the issuer; all callers wait for it
ASKING    the issuer returns a token                      KNOWN     return it to all callers that wait
ASKING    no answer, or an answer without a token         NONE      all callers that wait fail
KNOWN     a caller needs a token, well before it expires  KNOWN     return it
KNOWN     a caller needs a token, when it expires soon    ASKING    as above
KNOWN     brokers refuse the token                        NONE      forget it
========  ==============================================  ========  ===========================================================

The credentials are read from their file for each request, and are sent to the issuer only.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx

from ... import regular_file
from .credentials import OAuth2, TlsOptions, checked_token

_SECONDS = 8.0
"""How long an issuer may take for discovery and token together; an attempt at the admin API has 10 s."""
_MOST_BYTES = 256 * 1024
_DISCOVERY = "/.well-known/openid-configuration"
_EARLIER_SECONDS = 60.0
_EARLIER_PART = 0.2
"""A new token is requested this long before the old one expires: a minute, or a fifth of its lifetime if that is less."""
_UNSAID_SECONDS = 300.0
"""How long a token is used if the issuer does not say how long it is valid."""
_CODE = re.compile(r"[a-z_]{1,60}")
"""The form of an issuer's error code (RFC 6749, 5.2)."""


class Tokens:
    """The current token. An instance belongs to the event loop that it is first used on."""

    def __init__(self, oauth2: OAuth2, clock: Callable[[], float] = time.monotonic) -> None:
        """Requests nothing yet."""
        self._oauth2 = oauth2
        self._clock = clock
        self._token = ""
        self._until = 0.0
        self._asking: asyncio.Task[None] | None = None

    async def token(self) -> str:
        """Returns the token, and requests it first if need be.

        Raises:
            OSError: there is no token; the message contains no secret.
        """
        if not self._token or self._clock() >= self._until:
            if self._asking is None or self._asking.done():
                self._asking = asyncio.get_running_loop().create_task(self._ask(), name="token for Pulsar")
            await asyncio.shield(self._asking)  # a caller that is cancelled does not end it for the others
        return self._token

    def refused(self, token: str) -> None:
        """Forgets a token that brokers do not accept although it has not expired."""
        if token == self._token:
            self._token = ""

    async def close(self) -> None:
        """Cancels a request that is under way."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _ask(self) -> None:
        issuer = self._oauth2.issuer.rstrip("/")
        where = urlsplit(issuer).netloc
        form = {"grant_type": "client_credentials", **self._credentials()}
        form |= {name: said for name in ("audience", "scope") if (said := getattr(self._oauth2, name))}
        try:
            async with asyncio.timeout(_SECONDS), httpx.AsyncClient(verify=TlsOptions().context(), trust_env=False) as http:
                found = await _json(http, "GET", issuer + _DISCOVERY)
                endpoint = str(found.get("token_endpoint", ""))
                if urlsplit(endpoint).scheme != "https" and urlsplit(issuer).scheme == "https":
                    raise OSError(f"the issuer {where} has no token endpoint with TLS")
                told = await _json(http, "POST", endpoint, data=form)
        except TimeoutError:
            raise OSError(f"the issuer {where} did not answer within {_SECONDS:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise OSError(f"the issuer {where} can't be reached ({type(error).__name__})") from None
        token = checked_token(str(told.get("access_token") or ""), f"what the issuer {where} gives")
        seconds = _seconds(told.get("expires_in"))
        self._token, self._until = token, self._clock() + seconds - min(_EARLIER_SECONDS, _EARLIER_PART * seconds)

    def _credentials(self) -> dict[str, str]:
        path = self._oauth2.credentials
        try:
            read = json.loads(regular_file.read(path))
            return {name: str(read[name]) for name in ("client_id", "client_secret")}
        except (ValueError, TypeError, LookupError, RecursionError):
            raise OSError(f"the file {path} is not JSON with client_id and client_secret") from None


async def _json(http: httpx.AsyncClient, method: str, url: str, **content: Any) -> dict[str, Any]:
    """Sends a request to the issuer, and returns the JSON object that it answers."""
    async with http.stream(method, url, headers={"accept": "application/json"}, **content) as answer:
        body = b""
        async for part in answer.aiter_bytes():
            body += part
            if len(body) > _MOST_BYTES:
                raise OSError(f"the issuer {urlsplit(url).netloc} answered more than {_MOST_BYTES:,} bytes")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if answer.status_code != httpx.codes.OK or not isinstance(found, dict):
        code = str(found.get("error", "")) if isinstance(found, dict) else ""
        why = f" ({code})" if _CODE.fullmatch(code) else ""
        raise OSError(f"the issuer {urlsplit(url).netloc} answers {answer.status_code}{why} to the request for a token")
    return found


def _seconds(said: object) -> float:
    """Parses how long a token is valid."""
    try:
        seconds = float(str(said))
    except ValueError:
        return _UNSAID_SECONDS
    return seconds if 0 < seconds < float("inf") else _UNSAID_SECONDS
