"""The admin API of the brokers, as far as it is asked questions: GET, JSON, time limits, retries, redirects.

What the questions mean is for others (``topics``, ``schemas``, ``cluster_facts``).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

import httpx

from ....core.reasons import Reason
from ...change_log import LogError
from ..credentials import TlsOptions, TokenSource

_ATTEMPT_SECONDS = 5.0
_TOTAL_SECONDS = 15.0
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0
_REDIRECTS = 5
_CONNECTIONS = 16
_WORTH_RETRYING = frozenset({408, 429, 500, 502, 503, 504})
_NO_ENTRY = frozenset({401, 403})


class Admin:
    """A client of the admin API. It belongs to the event loop that it is first used on."""

    def __init__(self, url: str, *, token: TokenSource | None = None, tls: TlsOptions | None = None) -> None:
        """Connects on first use.

        Args:
            url: ``http://host:port`` or ``https://host:port``, the hosts separated by commas if there are several: they take turns.
            token: what to show as bearer token.
            tls: how to check brokers' certificates, for ``https``; by default as strictly as can be.

        Raises:
            OSError: a file of ``tls`` can't be used.
        """
        scheme, _, hosts = url.rstrip("/").partition("://")
        self._bases = [f"{scheme}://{host}" for host in hosts.split(",")]
        self._token = token
        self._asking: set[asyncio.Task[httpx.Response]] = set()
        self._ended: frozenset[asyncio.Task[httpx.Response]] = frozenset()
        self._closed = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None
        self._http = httpx.AsyncClient(
            verify=(tls or TlsOptions()).context(),
            timeout=_ATTEMPT_SECONDS,
            limits=httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS),
            trust_env=False,  # a proxy or a .netrc of the environment is not meant for brokers
        )

    async def get(self, *path: str, seconds: float = _TOTAL_SECONDS) -> Any:
        """What the broker answers to ``GET /admin/v2/<path>``: the JSON, or None for "not found".

        Args:
            path: the segments of the path, unquoted.
            seconds: how long to go on trying.

        Raises:
            LogError: there is no usable answer (UNAVAILABLE, ``PULSAR_ADMIN_UNREACHABLE`` or ``PULSAR_ADMIN_REFUSED``).
        """
        resource = _resource(path)
        answer = await self._answer(resource, seconds)
        if answer is None or not answer.content:
            return None if answer is None else {}
        try:
            return answer.json()
        except (json.JSONDecodeError, UnicodeDecodeError):
            return answer.text  # the version is plain text

    async def headers(self, *path: str, seconds: float = _TOTAL_SECONDS) -> Mapping[str, str] | None:
        """The headers of the same answer, whose names are found in any case; None for "not found".

        Raises:
            LogError: as ``get``.
        """
        answer = await self._answer(_resource(path), seconds)
        return None if answer is None else answer.headers

    async def close(self) -> None:
        """Ends what is being asked, which then has no answer, and closes the connections.

        That is done whole, also if who waits for it is cancelled: connections that are left half-way are closed by nobody.
        """
        if self._closing is None:
            self._closed.set()
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._ended = frozenset(self._asking)
        for asking in self._ended:
            asking.cancel()
        await asyncio.gather(*self._ended, return_exceptions=True)
        await self._http.aclose()

    async def _answer(self, resource: str, seconds: float) -> httpx.Response | None:
        deadline = time.monotonic() + seconds
        pause = _FIRST_PAUSE
        while True:
            try:
                return await self._ask(resource)
            except _PassingFaultError as fault:
                if time.monotonic() + pause >= deadline:
                    raise LogError(
                        Reason.PULSAR_ADMIN_UNREACHABLE, f"The admin API of Pulsar gives no answer to GET {resource}: {fault}."
                    ) from fault
                self._bases.append(self._bases.pop(0))
            await self._rest(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _rest(self, seconds: float) -> None:
        """Waits, until it is closed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closed.wait()

    async def _ask(self, resource: str) -> httpx.Response | None:
        url = self._bases[0] + resource
        for _ in range(_REDIRECTS):
            try:
                answer = await self._sent(url)
            except httpx.HTTPError as error:
                raise _PassingFaultError(f"{type(error).__name__} {error}".strip()) from error
            if answer.has_redirect_location:
                url = self._redirected(url, answer.headers["location"])
                continue
            return self._found(answer, resource)
        raise _PassingFaultError(f"{_REDIRECTS} redirects, the last to {url}")

    async def _sent(self, url: str) -> httpx.Response:
        """One request, a task of its own that ``close`` can end: a connection that came about after the closing would stay open."""
        if self._closed.is_set():
            raise _closed()
        cancelled = _cancellations()
        # httpx would follow redirects itself, but leave the token out; brokers redirect to the owner of a topic, which wants it.
        question = self._http.get(url, headers=self._headers(), follow_redirects=False, extensions={"trace": _Handshake().trace})
        asking = asyncio.create_task(question)
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)
        try:
            return await asking
        except asyncio.CancelledError:
            if asking in self._ended and _cancellations() == cancelled:
                raise _closed() from None
            raise

    def _headers(self) -> dict[str, str]:
        if self._token is None:
            return {}
        try:
            return {"Authorization": f"Bearer {self._token()}"}
        except OSError as error:
            raise _PassingFaultError(f"the token can't be read ({error.strerror or error})") from error

    def _redirected(self, url: str, location: str) -> str:
        target = urljoin(url, location)
        if urlsplit(url).scheme == "https" and urlsplit(target).scheme != "https":
            raise LogError(Reason.PULSAR_ADMIN_REFUSED, f"The admin API of Pulsar redirects from {url} to a place without TLS: {target}.")
        return target

    def _found(self, answer: httpx.Response, resource: str) -> httpx.Response | None:
        status = answer.status_code
        if status == httpx.codes.NOT_FOUND:
            return None
        if status in _NO_ENTRY:
            raise LogError(Reason.PULSAR_ADMIN_REFUSED, f"The admin API of Pulsar answers {status} to GET {resource}: {_said(answer)}.")
        if status in _WORTH_RETRYING:
            raise _PassingFaultError(f"{status} {_said(answer)}")
        if answer.is_error:
            raise LogError(Reason.PULSAR_ADMIN_UNREACHABLE, f"The admin API of Pulsar answers {status} to GET {resource}: {_said(answer)}.")
        return answer


class _PassingFaultError(Exception):
    """A call that may succeed when it is repeated."""


def _closed() -> LogError:
    return LogError(Reason.PULSAR_ADMIN_UNREACHABLE, "The client of Pulsar's admin API was closed.")


def _cancellations() -> int:
    """How often the task that runs here was cancelled; those that it waits for are not counted."""
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


class _Handshake:
    """Closes the connection of a TLS handshake that was cancelled: the HTTP library closes it after other failures only."""

    def __init__(self) -> None:
        self._stream: Any = None

    async def trace(self, event: str, facts: Mapping[str, Any]) -> None:
        """Told by the library what it does."""
        if event == "connection.connect_tcp.complete":
            self._stream = facts["return_value"]
        elif event == "connection.start_tls.failed" and self._stream is not None:
            await self._stream.aclose()


def _resource(path: Sequence[str]) -> str:
    return "/admin/v2/" + "/".join(quote(segment, safe="") for segment in path)


def _said(answer: httpx.Response) -> str:
    """What a broker gave as its reason, one line of it."""
    try:
        said = str(answer.json()["reason"])
    except (ValueError, KeyError, TypeError):
        said = answer.reason_phrase
    return " ".join(said.split())[:200] or "no reason given"
