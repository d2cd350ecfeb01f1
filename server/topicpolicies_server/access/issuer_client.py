"""Fetches issuers' keys over HTTP. An issuer says where its keys are (OpenID Connect Discovery 1.0), unless their URL is configured."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from ..config.authentication import MOST_ISSUERS, is_private
from .issuers import MOST_BYTES, KeySet, Unanswered, key_set
from .keys import KeyUnusable

TOTAL_SECONDS = 5.0
"""How long an issuer may take for both answers together: calls wait for it."""
_DISCOVERY = "/.well-known/openid-configuration"
_FINE = 200
_HEADERS = {"accept": "application/json", "accept-encoding": "identity"}
"""An answer is not compressed: a few bytes could become very many before their number is known."""


class IssuerClient:
    """Fetches the keys of issuers. It is bound to the event loop on which it is first used."""

    def __init__(self, *, url: str = "", trust_certs: Path | None = None) -> None:
        """Creates the client, which connects on first use.

        Args:
            url: where the keys of the only issuer are; "": the issuer says where.
            trust_certs: the authorities of the issuers' certificates; None: those of the system.

        Raises:
            OSError: the file can't be used; ``ssl.SSLError`` is one.
            RuntimeError: the environment names a proxy that can't be used.
        """
        self._url = url
        trusted = ssl.create_default_context(cafile=trust_certs)
        with _reporting_proxies():
            self._http = httpx.AsyncClient(
                verify=trusted,
                timeout=TOTAL_SECONDS,
                limits=httpx.Limits(max_connections=MOST_ISSUERS, max_keepalive_connections=0),  # no issuer waits for another one
                follow_redirects=False,
                mounts={"http://": None},  # never through a proxy of the environment: only an issuer on this machine may have http
            )

    async def keys(self, issuer: str) -> KeySet:
        """Returns the keys of an issuer.

        Raises:
            Unanswered: the issuer gives no keys, or not in time.
        """
        try:
            async with asyncio.timeout(TOTAL_SECONDS):
                return key_set(await self._get(self._url or await self._where(issuer)))
        except TimeoutError as error:
            raise Unanswered(f"no answer in {TOTAL_SECONDS:g} s") from error
        except KeyUnusable as error:
            raise Unanswered(f"its answer is not a set of keys: {error}") from error

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def _where(self, issuer: str) -> str:
        told = _object(await self._get(issuer.removesuffix("/") + _DISCOVERY))
        url = told.get("jwks_uri")
        if told.get("issuer") != issuer:
            raise Unanswered("its discovery document names another issuer")
        if not isinstance(url, str) or not is_private(url) or (url.startswith("http:") and not issuer.startswith("http:")):
            raise Unanswered("the URL of its keys is not https")
        return url

    async def _get(self, url: str) -> bytes:
        try:
            async with self._http.stream("GET", url, headers=_HEADERS) as response:
                if response.status_code != _FINE:
                    raise Unanswered(f"it answers with status {response.status_code}")
                if response.headers.get("content-encoding", "identity") != "identity":
                    raise Unanswered("its answer is compressed, which was not requested")
                body = bytearray()
                async for piece in response.aiter_raw():
                    body += piece
                    if len(body) > MOST_BYTES:
                        raise Unanswered(f"its answer has more than {MOST_BYTES:,} bytes")
                return bytes(body)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:  # ValueError: a host that no name can be
            raise Unanswered(f"it does not answer: {type(error).__name__}") from error


def _object(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Unanswered("its discovery document is not JSON") from error
    if not isinstance(found, dict):
        raise Unanswered("its discovery document is not an object")
    return found


@contextmanager
def _reporting_proxies() -> Iterator[None]:
    """Surrounds the making of an HTTP client, which reads the proxies.

    Raises:
        RuntimeError: a proxy can't be used. The text names none, because its URL may have a password.
    """
    try:
        yield
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        raise RuntimeError(
            "a proxy in the environment can't be used (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY or NO_PROXY): write http://host:port, for SOCKS"
            " proxies are not supported"
        ) from error
