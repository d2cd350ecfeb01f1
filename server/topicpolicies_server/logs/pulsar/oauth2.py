"""Tokens for the admin API from an issuer: OAuth 2.0 with client credentials, as pulsar-client has it for the binary protocol.

========  ==============================================  ========  ===========================================================
state     event                                           next      what is done
========  ==============================================  ========  ===========================================================
NONE      a token is wanted                               ASKING    the issuer is asked; all who want one wait for that
ASKING    the issuer answers                              KNOWN     all who wait have the token
ASKING    it does not, or says what is none               NONE      all who wait fail
KNOWN     a token is wanted, before its time              KNOWN     it is given
KNOWN     a token is wanted, shortly before it expires    ASKING    as above
KNOWN     brokers refuse it                               NONE      it is forgotten
========  ==============================================  ========  ===========================================================

The credentials are read from their file for each question, and are told to nobody but the issuer.
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
"""How long an issuer may take to answer both questions; an attempt at the admin API has 10 s."""
_MOST_BYTES = 256 * 1024
_DISCOVERY = "/.well-known/openid-configuration"
_EARLIER_SECONDS = 60.0
_EARLIER_PART = 0.2
"""A token is asked for anew so much before it expires: a minute, or a fifth of its time if that is less."""
_UNSAID_SECONDS = 300.0
"""How long a token is used whose issuer does not say how long it holds."""
_CODE = re.compile(r"[a-z_]{1,60}")
"""How an issuer's error is named (RFC 6749, 5.2)."""


class Tokens:
    """The token to show now. It belongs to the event loop that it is first used on."""

    def __init__(self, oauth2: OAuth2, clock: Callable[[], float] = time.monotonic) -> None:
        """Asks nothing yet."""
        self._oauth2 = oauth2
        self._clock = clock
        self._token = ""
        self._until = 0.0
        self._asking: asyncio.Task[None] | None = None

    async def token(self) -> str:
        """The token.

        Raises:
            OSError: there is none, in words that hold no secret.
        """
        if not self._token or self._clock() >= self._until:
            if self._asking is None or self._asking.done():
                self._asking = asyncio.get_running_loop().create_task(self._ask(), name="token for Pulsar")
            await asyncio.shield(self._asking)  # who gives up does not end it for the others
        return self._token

    def refused(self, token: str) -> None:
        """Brokers do not accept it, though its time is not over."""
        if token == self._token:
            self._token = ""

    async def close(self) -> None:
        """Asks no more."""
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
                    raise OSError(f"the issuer {where} names no place with TLS for tokens")
                told = await _json(http, "POST", endpoint, data=form)
        except TimeoutError:
            raise OSError(f"the issuer {where} gives no answer in {_SECONDS:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise OSError(f"the issuer {where} can't be asked ({type(error).__name__})") from None
        token = checked_token(str(told.get("access_token") or ""), f"what the issuer {where} gives")
        seconds = _seconds(told.get("expires_in"))
        self._token, self._until = token, self._clock() + seconds - min(_EARLIER_SECONDS, _EARLIER_PART * seconds)

    def _credentials(self) -> dict[str, str]:
        path = self._oauth2.credentials
        try:
            read = json.loads(regular_file.read(path))
            return {name: str(read[name]) for name in ("client_id", "client_secret")}
        except (ValueError, TypeError, LookupError, RecursionError):
            raise OSError(f"the file {path} holds no client_id and client_secret in JSON") from None


async def _json(http: httpx.AsyncClient, method: str, url: str, **content: Any) -> dict[str, Any]:
    """What an issuer answers: an object."""
    async with http.stream(method, url, headers={"accept": "application/json"}, **content) as answer:
        body = b""
        async for part in answer.aiter_bytes():
            body += part
            if len(body) > _MOST_BYTES:
                raise OSError(f"the issuer {urlsplit(url).netloc} answers more than {_MOST_BYTES:,} bytes")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if answer.status_code != httpx.codes.OK or not isinstance(found, dict):
        code = str(found.get("error", "")) if isinstance(found, dict) else ""
        why = f" ({code})" if _CODE.fullmatch(code) else ""
        raise OSError(f"the issuer {urlsplit(url).netloc} answers {answer.status_code}{why} where a token was to be had")
    return found


def _seconds(said: object) -> float:
    """How long a token holds."""
    try:
        seconds = float(str(said))
    except ValueError:
        return _UNSAID_SECONDS
    return seconds if 0 < seconds < float("inf") else _UNSAID_SECONDS
