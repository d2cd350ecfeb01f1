"""One answer of the admin API, read completely and in bounded memory; an answer of an unexpected form is an error."""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, NamedTuple, ParamSpec, TypeVar

import httpx

from ....core.reasons import LogState
from ...change_log import LogError

MOST_BYTES = 32 * 2**20
"""The largest answer that is read: the names of some 400,000 topics."""
_REASON_CHARACTERS = 200
_IDENTITY = "identity"
"""No compression, so that the size of an answer is bounded by what is sent."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


class TooLargeError(Exception):
    """An answer is larger than ``MOST_BYTES``."""


class Answer(NamedTuple):
    """A broker's answer."""

    status: int
    phrase: str
    headers: Mapping[str, str]
    """By name; upper and lower case do not matter."""
    body: bytes

    @property
    def content(self) -> Any:
        """The parsed JSON; an empty object if there is no body; the text if it can't be parsed, as the version is plain text."""
        if not self.body:
            return {}
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return self.body.decode(errors="replace")

    @property
    def is_explained(self) -> bool:
        """Whether the answer gives a reason in the form of brokers. Others, such as a proxy without its backend, answer in other forms."""
        content = self.content
        return isinstance(content, dict) and isinstance(content.get("reason"), str)

    def reason(self, secret: str) -> str:
        """Returns the reason that the broker gives, as one line. It may repeat what it was sent, so the secret is masked."""
        try:
            said = str(self.content["reason"])
        except (LookupError, TypeError):
            said = self.phrase
        if secret:
            said = said.replace(secret, "***")
        return " ".join(said.split())[:_REASON_CHARACTERS] or "no reason given"


async def fetch(http: httpx.AsyncClient, url: str, headers: Mapping[str, str]) -> Answer:
    """Sends one GET request.

    Raises:
        httpx.HTTPError: there is no answer.
        httpx.InvalidURL: the URL is malformed.
        TooLargeError: the answer is larger than ``MOST_BYTES``.
    """
    # httpx would follow redirects without the token; brokers redirect to the broker that owns a topic, which requires it.
    trace = {"trace": _Handshake().trace}
    sent = {**headers, "accept-encoding": _IDENTITY}
    async with http.stream("GET", url, headers=sent, follow_redirects=False, extensions=trace) as response:
        encoding = response.headers.get("content-encoding", _IDENTITY).strip().lower()
        if encoding != _IDENTITY:
            raise httpx.DecodingError(f"the answer is compressed by {encoding[:_REASON_CHARACTERS]}")
        body = bytearray()
        async for piece in response.aiter_raw():
            body += piece
            if len(body) > MOST_BYTES:
                raise TooLargeError
        return Answer(response.status_code, response.reason_phrase, response.headers, bytes(body))


def understood(ask: Callable[_P, Awaitable[_T]]) -> Callable[_P, Coroutine[Any, Any, _T]]:
    """Turns the exceptions that an answer of an unexpected form causes into a LogError (UNAVAILABLE, ``ADMIN_UNREACHABLE``).

    Such an answer may be a proxy's page, or a list in place of an object.
    """

    @functools.wraps(ask)
    async def asking(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return await ask(*args, **kwargs)
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
            problem = f"{type(error).__name__} {error}"[:_REASON_CHARACTERS]
            raise LogError(
                LogState.ADMIN_UNREACHABLE, f"The admin API of Pulsar answered in an unknown form ({ask.__name__}: {problem})."
            ) from error

    return asking


def names_of(answer: Any) -> list[str]:
    """Returns a list of names; an empty one for None.

    Raises:
        TypeError: the answer is something else.
    """
    found = [] if answer is None else answer
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise TypeError("no list of names")
    return found


class _Handshake:
    """Closes the connection of a TLS handshake that was cancelled: the HTTP library closes it after other failures only."""

    def __init__(self) -> None:
        self._stream: Any = None

    async def trace(self, event: str, facts: Mapping[str, Any]) -> None:
        """Called by the HTTP library for each step of a request."""
        if event == "connection.connect_tcp.complete":
            self._stream = facts["return_value"]
        elif event == "connection.start_tls.failed" and self._stream is not None:
            await self._stream.aclose()
