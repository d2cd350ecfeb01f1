"""Sends requests to the brokers' admin API: JSON, with time limits, retries and redirects. Answers are read in bounded memory.

What the answers mean is decided elsewhere (``topics``, ``facts``). Only a broker's own 404, which has a reason, says that something does
not exist: proxies answer 404, too, when they do not find their backend. Whatever brokers, proxies and the token's file do, the caller gets
an answer or a ``LogError``, within ``seconds`` and one more attempt.

With several hosts, the first is used until it fails; then the next. No request waits long for one host before it has tried the others.

Requests wait for a place before they wait for a connection: the HTTP library's own queue scans all requests that wait whenever one comes or
goes. One kind of request about one namespace has few of the places, so that a namespace that hangs leaves the others to others. Tests
whether a host can be reached wait for no place, so their result is known even while all other requests wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import random
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeAlias, TypeVar
from urllib.parse import quote, urlencode, urljoin, urlsplit
from weakref import WeakValueDictionary

import httpx

from ...config import PulsarLogConfig
from ...core.errors import Kind, PolicyError
from ...core.reasons import LogState, Reason
from ...tasks import TaskSet
from ..change_log import LogError
from .credentials import Identity, TlsOptions, Tokens, identity_of, tls_of

_log = logging.getLogger(__name__)

MOST_BYTES = 32 * 2**20
"""The largest answer that is read: the names of some 400,000 topics."""
_REASON_CHARACTERS = 200
_IDENTITY = "identity"
"""No compression, so that the size of an answer is bounded by what is sent."""
_ATTEMPT_SECONDS = 10.0
"""How long an attempt may take, including its redirects and the whole answer."""
_ONE_OF_SEVERAL_SECONDS = 2.0
"""The same, while there is a host that has not been asked for this answer."""
_READ_SECONDS = 5.0
"""How long an attempt may wait for its connection, and for each piece of an answer."""
_TOTAL_SECONDS = 15.0
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0
PLACES = 64
"""How many requests may be in flight."""
OF_A_KIND = 8
"""How many of one kind, about one namespace."""
_REACHING = 4
"""Connections besides, for ``Admin.reached``."""
_REDIRECTS = 5
_WORTH_RETRYING = frozenset({408, 429, 500, 502, 503, 504})
_NO_ENTRY = frozenset({401, 403})
NO_ENDPOINT = "404, but not from a broker"
"""What an error says if a proxy has not found its backend, or a broker its endpoint, however often it was asked."""
_NO_SEGMENTS = frozenset({".", ".."})
"""URLs resolve these segments, which Pulsar allows as names (RFC 3986, 5.2.4): a path with one of them names no resource."""
_REDIRECTING = frozenset({301, 302, 303, 307, 308})


Query: TypeAlias = Mapping[str, str]
"""The parameters of a request."""
_NO_QUERY: Query = {}
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


class _Request(NamedTuple):
    """A request of the admin API."""

    resource: str
    method: str = "GET"
    content: bytes | None = None

    def __str__(self) -> str:
        return f"{self.method} {self.resource}"


class Admin:
    """A client of the admin API. An instance belongs to the event loop that it is first used on."""

    def __init__(self, url: str, *, token: Identity | None = None, tls: TlsOptions | None = None) -> None:
        """Connects on first use.

        ``url`` may name several hosts, separated by commas, which take turns when one fails. ``tls`` is as strict as possible by default.

        Raises:
            LogError: a file of ``tls`` can't be used (FAILED_PRECONDITION).
        """
        scheme, _, hosts = url.rstrip("/").partition("://")
        self._bases = [f"{scheme}://{host}" for host in hosts.split(",")]
        self._tokens = Tokens(token)
        self._tls = tls or TlsOptions()
        self._tls_files = self._tls.signatures()
        self._tls_problem = ""
        try:
            self._http = _connections(self._tls.context())
        except OSError as error:
            told = f"A TLS file for Pulsar can't be used: {error}."
            raise LogError(Reason.CLUSTER_UNAVAILABLE, told, kind=Kind.FAILED_PRECONDITION) from error
        self._asking: set[asyncio.Task[Answer]] = set()
        self._closed = asyncio.Event()
        self._places = asyncio.Semaphore(PLACES)
        self._of_a_kind: WeakValueDictionary[Hashable, asyncio.Semaphore] = WeakValueDictionary()
        self._retired = TaskSet("the admin API of Pulsar")

    async def get(self, *path: str, seconds: float = _TOTAL_SECONDS, query: Query = _NO_QUERY) -> Any:
        """Returns the JSON that the broker answers to ``GET /admin/v2/<path>``; None for "not found". Requests wait for a connection.

        ``path``: unquoted segments. ``seconds``: how long to go on trying, including the wait behind other requests; the last attempt may
        take 10 s more.

        Raises:
            LogError: there is no usable answer (UNAVAILABLE, ``ADMIN_UNREACHABLE`` or ``ADMIN_REFUSED``).
        """
        answer = await self._answer(path, seconds, query)
        return None if answer is None else answer.content

    async def change(self, method: str, *path: str, query: Query = _NO_QUERY, body: Any = None) -> None:
        """Sends a change, which may be sent again until it has an answer: it must be one that can be repeated. ``body``: None: without.

        Raises:
            PolicyError: the broker refuses it (FAILED_PRECONDITION), or what it changes does not exist (NOT_FOUND).
            LogError: as ``get``.
        """
        if await self._answer(path, _TOTAL_SECONDS, query, method, None if body is None else json.dumps(body).encode()) is None:
            raise PolicyError(Kind.NOT_FOUND, Reason.TOPIC_NOT_FOUND, f"Pulsar does not find {_resource(path, query)}.")

    async def headers(self, *path: str, seconds: float = _TOTAL_SECONDS) -> Mapping[str, str] | None:
        """Returns the headers of such an answer, by name in upper or lower case; None for "not found"."""
        answer = await self._answer(path, seconds)
        return None if answer is None else answer.headers

    async def reached(self, seconds: float) -> None:
        """Returns when one of the hosts has given a good answer; the hosts share ``seconds``. Nothing is retried.

        Raises:
            LogError: no host answers (UNAVAILABLE, ``ADMIN_UNREACHABLE``), or it denies access (``ADMIN_REFUSED``).
        """
        request, bases = _Request(_resource(("brokers", "version"))), tuple(self._bases)
        problem = LogError(LogState.ADMIN_UNREACHABLE, "The admin API of Pulsar has no host.")
        for base in bases:
            try:
                await self._ask(base, request, seconds / len(bases))
                return
            except _PassingFaultError as fault:
                problem = LogError(LogState.ADMIN_UNREACHABLE, f"The admin API of Pulsar did not answer: {fault}.")
            except LogError as error:
                if error.state is not LogState.ADMIN_UNREACHABLE or self._closed.is_set():
                    raise
                problem = error  # another host may do better
                self._turn_from(base)
        raise problem

    async def close(self) -> None:
        """Ends the requests that are under way, without an answer, and closes the connections."""
        self._closed.set()
        for asking in self._asking:
            asking.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)
        await self._tokens.close()
        await self._retired.close(cancel=False)
        await self._http.aclose()

    def _follow_tls_files(self) -> None:
        """Replaces the connections if the TLS files have changed. Requests under way end on the old ones, which are closed then.

        If new files can't be used, the former content stays in force, which is logged once.
        """
        if (files := self._tls.signatures()) == self._tls_files:
            return
        try:
            context = self._tls.context()
        except OSError as error:
            if self._tls_problem != (problem := str(error)):
                _log.warning("TLS to Pulsar: %s; the former content stays in force", problem)
            self._tls_problem = problem
            return
        self._tls_files, self._tls_problem = files, ""
        _log.info("TLS to Pulsar: read again, and in force")
        old, asking, self._http = self._http, set(self._asking), _connections(context)

        async def retire() -> None:
            if asking:
                await asyncio.wait(asking)
            await old.aclose()

        self._retired.begin(retire(), "connections with a former certificate")

    async def _answer(
        self, path: Sequence[str], seconds: float, query: Query = _NO_QUERY, method: str = "GET", content: bytes | None = None
    ) -> Answer | None:
        if not _NO_SEGMENTS.isdisjoint(path):
            return None
        request = _Request(_resource(path, query), method, content)
        deadline = time.monotonic() + seconds
        pause = _FIRST_PAUSE
        unasked = set(self._bases)
        while True:
            try:
                async with self._place(_subject(path), deadline - time.monotonic()):
                    base = self._bases[0]
                    unasked.discard(base)
                    others = unasked and time.monotonic() + _ONE_OF_SEVERAL_SECONDS + pause < deadline
                    return await self._ask(base, request, _ONE_OF_SEVERAL_SECONDS if others else _ATTEMPT_SECONDS)
            except _PassingFaultError as fault:
                if time.monotonic() + pause >= deadline:
                    raise LogError(LogState.ADMIN_UNREACHABLE, f"The admin API of Pulsar did not answer {request}: {fault}.") from fault
            await self._rest(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE)

    @contextlib.asynccontextmanager
    async def _place(self, subject: Hashable, seconds: float) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as held:
            why = "earlier requests of the same kind are not answered"
            try:
                async with asyncio.timeout(seconds):
                    await held.enter_async_context(self._of_a_kind.setdefault(subject, asyncio.Semaphore(OF_A_KIND)))
                    why = "too many other requests wait before it"
                    await held.enter_async_context(self._places)
            except TimeoutError:
                raise _PassingFaultError(why) from None
            yield

    def _turn_from(self, base: str) -> None:
        """Moves a host that failed to the end of the list, unless another request has done so already."""
        if self._bases[0] == base:
            self._bases.append(self._bases.pop(0))

    async def _rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closed.wait()

    async def _ask(self, base: str, request: _Request, seconds: float) -> Answer | None:
        try:
            async with asyncio.timeout(seconds):
                return await self._followed(base, request)
        except TimeoutError:
            self._turn_from(base)
            raise _PassingFaultError(f"no complete answer in {seconds:g} s") from None
        except _PassingFaultError:
            self._turn_from(base)
            raise

    async def _followed(self, base: str, request: _Request) -> Answer | None:
        url = base + request.resource
        self._follow_tls_files()
        for _ in range(_REDIRECTS):
            if self._closed.is_set():
                raise _closed()
            try:
                token = await self._tokens.token()
            except OSError as error:
                raise _PassingFaultError(f"there is no token ({error.strerror or error})") from error
            try:
                answer = await self._sent(url, {"Authorization": f"Bearer {token}"} if token else {}, request)
            except LogError:
                raise
            except TooLargeError:
                raise _useless(request, f"larger than {MOST_BYTES // 2**20} MiB") from None
            except Exception as error:  # the HTTP library has more errors than those it names
                raise _PassingFaultError(f"{type(error).__name__} {error}".strip()) from error
            if answer.status not in _REDIRECTING or "location" not in answer.headers:
                return self._found(answer, request, token)
            url = self._redirected(url, answer.headers["location"])
        raise _PassingFaultError(f"{_REDIRECTS} redirects, the last to {_host_of(url)}")

    async def _sent(self, url: str, headers: Mapping[str, str], request: _Request) -> Answer:
        """Sends one request, in a task that ``close`` can cancel: a connection that was made after the closing would stay open."""
        if self._closed.is_set():
            raise _closed()
        asking = asyncio.create_task(_fetch(self._http, url, headers, request))
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)
        try:
            await asyncio.wait({asking})
        except asyncio.CancelledError:
            asking.cancel()
            raise
        if asking.cancelled():
            raise _closed()
        return asking.result()

    @staticmethod
    def _redirected(url: str, location: str) -> str:
        try:
            target = urljoin(url, location)
            parts = urlsplit(target)
            scheme, host = parts.scheme, parts.hostname if parts.port != 0 else ""
        except ValueError:
            target = scheme = host = ""
        where = f"The admin API of Pulsar redirects from {_host_of(url)} to"
        if scheme not in ("http", "https") or not host:
            raise LogError(LogState.ADMIN_UNREACHABLE, f"{where} something that is not an HTTP address.")
        if urlsplit(url).scheme == "https" and scheme != "https":
            raise LogError(LogState.ADMIN_REFUSED, f"{where} a place without TLS: {_host_of(target)}.")
        return target

    def _found(self, answer: Answer, request: _Request, token: str) -> Answer | None:
        status = answer.status
        if status == httpx.codes.NOT_FOUND:
            if answer.is_explained:
                return None
            raise _PassingFaultError(NO_ENDPOINT)
        if status == httpx.codes.UNAUTHORIZED:
            self._tokens.refused(token)
        if status in _NO_ENTRY:
            raise LogError(LogState.ADMIN_REFUSED, f"The admin API of Pulsar answered {status} to {request}: {answer.reason(token)}.")
        if status in _WORTH_RETRYING:
            raise _PassingFaultError(f"{status} {answer.reason(token)}")
        if request.method != "GET" and answer.is_explained and httpx.codes.is_client_error(status):
            raise PolicyError(Kind.FAILED_PRECONDITION, Reason.RULE_VIOLATED, f"Pulsar refuses it ({status}): {answer.reason(token)}")
        if not httpx.codes.is_success(status):
            raise _useless(request, f"{status} {answer.reason(token)}")
        return answer


def admin_api(config: PulsarLogConfig) -> Admin:
    """Returns a client of a cluster's admin API. Nothing is connected yet.

    Raises:
        LogError: a TLS file can't be used (FAILED_PRECONDITION).
    """
    return Admin(config.admin_url, token=identity_of(config), tls=tls_of(config))


def _connections(context: ssl.SSLContext) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        verify=context,
        timeout=_READ_SECONDS,
        limits=httpx.Limits(max_connections=PLACES + _REACHING, max_keepalive_connections=PLACES),
        trust_env=False,  # a proxy or a .netrc of the environment is not meant for brokers
    )


class _PassingFaultError(Exception):
    """A request failed that may succeed when it is repeated."""


def _closed() -> LogError:
    return LogError(LogState.ADMIN_UNREACHABLE, "The client of Pulsar's admin API was closed.")


def _useless(request: _Request, what: str) -> LogError:
    return LogError(LogState.ADMIN_UNREACHABLE, f"The admin API of Pulsar gave no usable answer to {request}: {what}.")


def _host_of(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2][:200]


def _subject(path: Sequence[str]) -> Hashable:
    """Returns what a request is about: the kind of the request and the namespace, whichever of its topics."""
    return (*path[:3], *path[4:5])


def _resource(path: Sequence[str], query: Query = _NO_QUERY) -> str:
    return "/admin/v2/" + "/".join(quote(segment, safe="") for segment in path) + (f"?{urlencode(query)}" if query else "")


async def _fetch(http: httpx.AsyncClient, url: str, headers: Mapping[str, str], request: _Request) -> Answer:
    """Sends one request.

    Raises:
        httpx.HTTPError: there is no answer.
        httpx.InvalidURL: the URL is malformed.
        TooLargeError: the answer is larger than ``MOST_BYTES``.
    """
    # httpx would follow redirects without the token; brokers redirect to the broker that owns a topic, which requires it.
    sent = {**headers, "accept-encoding": _IDENTITY, **({} if request.content is None else {"content-type": "application/json"})}
    more: dict[str, Any] = {"follow_redirects": False, "extensions": {"trace": _handshake()}}
    async with http.stream(request.method, url, headers=sent, content=request.content, **more) as response:
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


def segments_of(topic: str) -> tuple[str, ...]:
    """Returns the segments of the path of a topic, by its full name."""
    domain, _, rest = topic.partition("://")
    return domain, *rest.split("/", 2)


def names_of(answer: Any) -> list[str]:
    """Returns a list of names; an empty one for None.

    Raises:
        TypeError: the answer is something else.
    """
    found = [] if answer is None else answer
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise TypeError("no list of names")
    return found


def _handshake() -> Callable[[str, Mapping[str, Any]], Awaitable[None]]:
    """Returns what closes the connection of a TLS handshake that was cancelled: the HTTP library closes it after other failures only."""
    stream: Any = None

    async def trace(event: str, facts: Mapping[str, Any]) -> None:
        nonlocal stream
        if event == "connection.connect_tcp.complete":
            stream = facts["return_value"]
        elif event == "connection.start_tls.failed" and stream is not None:
            await stream.aclose()

    return trace
