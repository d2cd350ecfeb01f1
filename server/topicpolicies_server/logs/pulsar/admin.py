"""Sends requests to the brokers' admin API: JSON, with time limits, retries and redirects.

What the answers mean is decided elsewhere (``topics``, ``facts``). Only a broker's own 404, which has a reason, says that something does
not exist: proxies answer 404, too, when they do not find their backend. Whatever brokers, proxies and the token's file do, the caller gets
an answer or a ``LogError``, within ``seconds`` and one more attempt.

With several hosts, the first is used until it fails; then the next. No request waits long for one host before it has tried the others.

Requests wait for a place before they wait for a connection: the HTTP library's own queue scans all requests that wait whenever one comes or
goes. One kind of request about one namespace has few of the places, so that a namespace that hangs leaves the others to others. Requests
about the cluster, such as those for the roles of a tenant, have places of their own, and tests whether a host can be reached wait for none:
both have their results even while all other requests wait.
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
from typing import Any, ParamSpec, TypeAlias, TypeVar
from urllib.parse import quote, urlencode
from weakref import WeakValueDictionary

import httpx

from ...config import PulsarLogConfig
from ...core.errors import Kind, PolicyError
from ...core.reasons import LogState, Reason
from ...tasks import DaemonThreads, TaskSet
from ..change_log import LogError
from .credentials import IssuedToken, TlsOptions, TokenSource, tls_of, token_of

_log = logging.getLogger(__name__)

_REASON_CHARACTERS = 200
_ATTEMPT_SECONDS = 10.0
"""How long an attempt may take, including its redirects and the whole answer."""
_ONE_OF_SEVERAL_SECONDS = 2.0
"""The same, while there is a host that has not been asked for this answer."""
_STEP_SECONDS = 5.0
"""How long an attempt may wait for its connection, its TLS handshake, and each piece of an answer."""
_STEP_PART = 0.9
"""The same as a part of the attempt's time, if that is less. So a handshake ends by the HTTP library's own limit: it does not close the
connection of one that is cancelled."""
_TOTAL_SECONDS = 15.0
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0
PLACES = 64
"""How many requests may be in flight."""
OF_A_KIND = 8
"""How many of one kind, about one namespace."""
_OF_CLUSTER = frozenset({"brokers", "clusters", "tenants"})
"""How the paths of requests about the cluster begin, each of which is a kind."""
_BESIDES = 4 + len(_OF_CLUSTER) * OF_A_KIND
"""Connections besides, for ``Admin.reached`` and for requests about the cluster."""
_REDIRECTS = 5
_WORTH_RETRYING = frozenset({408, 429, 500, 502, 503, 504})
_NO_ENTRY = frozenset({401, 403})
NO_ENDPOINT = "404, but not from a broker"
"""What an error says if a proxy has not found its backend, or a broker its endpoint, however often it was asked."""
_NO_SEGMENTS = frozenset({".", ".."})
"""URLs resolve these segments, which Pulsar allows as names (RFC 3986, 5.2.4): a path with one of them names no resource."""

Query: TypeAlias = Mapping[str, str]
"""The parameters of a request."""
_NO_QUERY: Query = {}
_P = ParamSpec("_P")
_T = TypeVar("_T")


class Admin:
    """A client of the admin API. An instance belongs to the event loop that it is first used on."""

    def __init__(self, url: str, *, token: TokenSource | None = None, tls: TlsOptions | None = None) -> None:
        """Connects on first use.

        ``url`` may name several hosts, separated by commas, which take turns when one fails. ``tls`` is as strict as possible by default.

        Raises:
            LogError: a file of ``tls`` can't be used (FAILED_PRECONDITION).
        """
        scheme, _, hosts = url.rstrip("/").partition("://")
        self._bases = [f"{scheme}://{host}" for host in hosts.split(",")]
        self._secured = scheme == "https"
        self._token = token
        self._threads = DaemonThreads(1, "token-for-pulsar")
        self._tls = tls or TlsOptions()
        self._tls_files = self._tls.signatures()
        self._tls_problem = ""
        try:
            self._http = self._connections(self._tls.context())
        except OSError as error:
            told = f"A TLS file for Pulsar can't be used: {error}."
            raise LogError(Reason.CLUSTER_UNAVAILABLE, told, kind=Kind.FAILED_PRECONDITION) from error
        self._attempts: dict[asyncio.Timeout, httpx.AsyncClient] = {}
        """The attempts under way, and over which connections."""
        self._attempt_ended = asyncio.Event()
        self._closed = False
        self._places = asyncio.Semaphore(PLACES)
        self._of_a_kind: WeakValueDictionary[Hashable, asyncio.Semaphore] = WeakValueDictionary()
        self._retiring = TaskSet("the admin API of Pulsar")

    async def get(self, *path: str, seconds: float = _TOTAL_SECONDS, query: Query = _NO_QUERY) -> Any:
        """Returns the JSON that the broker answers to ``GET /admin/v2/<path>``; None for "not found". Requests wait for a connection.

        ``path``: unquoted segments. ``seconds``: how long to go on trying, including the wait behind other requests; the last attempt may
        take 10 s more.

        Raises:
            LogError: there is no usable answer (UNAVAILABLE, ``ADMIN_UNREACHABLE`` or ``ADMIN_REFUSED``).
        """
        answer = await self._answer(path, seconds, query)
        return None if answer is None else _content(answer)

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
        bases = tuple(self._bases)
        problem = LogError(LogState.ADMIN_UNREACHABLE, "The admin API of Pulsar has no host.")
        for base in bases:
            try:
                await self._ask(base, "GET", _resource(("brokers", "version")), None, seconds / len(bases))
                return
            except _PassingFaultError as fault:
                problem = LogError(LogState.ADMIN_UNREACHABLE, f"The admin API of Pulsar did not answer: {fault}.")
            except LogError as error:
                if error.state is not LogState.ADMIN_UNREACHABLE or self._closed:
                    raise
                problem = error  # another host may do better
                self._turn_from(base)
        raise problem

    async def close(self) -> None:
        """Ends the requests that are under way, without an answer, and closes the connections."""
        self._closed = True
        for attempt in self._attempts:
            if not attempt.expired():
                attempt.reschedule(0.0)
        self._threads.shutdown(wait=False)
        await self._retire(self._http)
        await self._retiring.close(cancel=False)

    def _connections(self, context: ssl.SSLContext) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            verify=context,
            limits=httpx.Limits(max_connections=PLACES + _BESIDES, max_keepalive_connections=PLACES),
            follow_redirects=True,
            max_redirects=_REDIRECTS,
            event_hooks={"request": [self._authenticate]},
            trust_env=False,  # a proxy or a .netrc of the environment is not meant for brokers
        )

    async def _authenticate(self, request: httpx.Request) -> None:
        """Called for each request that is sent, and for each redirect: a broker redirects to the one that owns a topic."""
        if self._secured and request.url.scheme != "https":
            raise LogError(LogState.ADMIN_REFUSED, f"The admin API of Pulsar redirects to a place without TLS: {request.url.host}.")
        if self._token is not None:
            try:
                token = await asyncio.get_running_loop().run_in_executor(self._threads, self._token)
            except OSError as error:
                raise _PassingFaultError(f"there is no token ({error.strerror or error})") from error
            request.headers["authorization"] = f"Bearer {token}"

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
        self._retiring.begin(self._retire(self._http), "connections with a former certificate")
        self._http = self._connections(context)

    async def _retire(self, http: httpx.AsyncClient) -> None:
        while http in self._attempts.values():  # a connection that was made after the closing would stay open
            self._attempt_ended.clear()
            await self._attempt_ended.wait()
        await http.aclose()

    async def _answer(
        self, path: Sequence[str], seconds: float, query: Query = _NO_QUERY, method: str = "GET", content: bytes | None = None
    ) -> httpx.Response | None:
        if not _NO_SEGMENTS.isdisjoint(path):
            return None
        resource = _resource(path, query)
        deadline = time.monotonic() + seconds
        pause = _FIRST_PAUSE
        unasked = set(self._bases)
        while True:
            try:
                async with self._place(_subject(path), deadline - time.monotonic()):
                    base = self._bases[0]
                    unasked.discard(base)
                    others = unasked and time.monotonic() + _ONE_OF_SEVERAL_SECONDS + pause < deadline
                    return await self._ask(base, method, resource, content, _ONE_OF_SEVERAL_SECONDS if others else _ATTEMPT_SECONDS)
            except _PassingFaultError as fault:
                if time.monotonic() + pause >= deadline:
                    told = f"The admin API of Pulsar did not answer {method} {resource}: {fault}."
                    raise LogError(LogState.ADMIN_UNREACHABLE, told) from fault
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE)

    @contextlib.asynccontextmanager
    async def _place(self, subject: Hashable, seconds: float) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as held:
            try:
                async with asyncio.timeout(seconds):
                    await held.enter_async_context(self._of_a_kind.setdefault(subject, asyncio.Semaphore(OF_A_KIND)))
                    if subject not in _OF_CLUSTER:
                        await held.enter_async_context(self._places)
            except TimeoutError:
                raise _PassingFaultError("too many other requests wait before it") from None
            yield

    def _turn_from(self, base: str) -> None:
        """Moves a host that failed to the end of the list, unless another request has done so already."""
        if self._bases[0] == base:
            self._bases.append(self._bases.pop(0))

    async def _ask(self, base: str, method: str, resource: str, content: bytes | None, seconds: float) -> httpx.Response | None:
        try:
            answer = await self._sent(method, base + resource, content, seconds)
            return self._found(answer, f"{method} {resource}")
        except _PassingFaultError:
            self._turn_from(base)
            raise

    async def _sent(self, method: str, url: str, content: bytes | None, seconds: float) -> httpx.Response:
        if self._closed:
            raise _closed()
        self._follow_tls_files()
        http, headers = self._http, {} if content is None else {"content-type": "application/json"}
        attempt = asyncio.timeout(seconds)
        try:
            async with attempt:
                self._attempts[attempt] = http
                step = min(_STEP_SECONDS, _STEP_PART * seconds)
                return await http.request(method, url, content=content, headers=headers, timeout=step)
        except (LogError, _PassingFaultError):
            raise
        except Exception as error:  # the HTTP library has more errors than those it names
            if self._closed:
                raise _closed() from None
            if attempt.expired():
                raise _PassingFaultError(f"no complete answer in {seconds:g} s") from None
            raise _PassingFaultError(f"{type(error).__name__} {error}".strip()) from error
        finally:
            self._attempts.pop(attempt, None)
            self._attempt_ended.set()

    def _found(self, answer: httpx.Response, what: str) -> httpx.Response | None:
        if answer.is_success:
            return answer
        status, content = answer.status_code, _content(answer)
        explained = isinstance(content, dict) and isinstance(content.get("reason"), str)
        if status == httpx.codes.NOT_FOUND:
            if explained:
                return None
            raise _PassingFaultError(NO_ENDPOINT)
        reason = " ".join((content["reason"] if explained else answer.reason_phrase).split()) or "no reason given"
        if token := answer.request.headers.get("authorization", "").removeprefix("Bearer "):  # the answer may repeat what it was sent
            reason = reason.replace(token, "***")
        reason = reason[:_REASON_CHARACTERS]
        if status == httpx.codes.UNAUTHORIZED and isinstance(self._token, IssuedToken):
            self._token.refused(token)
        if status in _NO_ENTRY:
            raise LogError(LogState.ADMIN_REFUSED, f"The admin API of Pulsar answered {status} to {what}: {reason}.")
        if status in _WORTH_RETRYING:
            raise _PassingFaultError(f"{status} {reason}")
        if answer.request.method != "GET" and explained and answer.is_client_error:
            raise PolicyError(Kind.FAILED_PRECONDITION, Reason.RULE_VIOLATED, f"Pulsar refuses it ({status}): {reason}")
        raise LogError(LogState.ADMIN_UNREACHABLE, f"The admin API of Pulsar gave no usable answer to {what}: {status} {reason}.")


def admin_api(config: PulsarLogConfig) -> Admin:
    """Returns a client of a cluster's admin API. Nothing is connected yet.

    Raises:
        LogError: a TLS file can't be used (FAILED_PRECONDITION).
    """
    return Admin(config.admin_url, token=token_of(config), tls=tls_of(config))


class _PassingFaultError(Exception):
    """A request failed that may succeed when it is repeated."""


def _closed() -> LogError:
    return LogError(LogState.ADMIN_UNREACHABLE, "The client of Pulsar's admin API was closed.")


def _subject(path: Sequence[str]) -> Hashable:
    """Returns what a request is about: the kind of the request and the namespace, whichever of its topics; or a part of the cluster."""
    return path[0] if path[0] in _OF_CLUSTER else (*path[:3], *path[4:5])


def _resource(path: Sequence[str], query: Query = _NO_QUERY) -> str:
    return "/admin/v2/" + "/".join(quote(segment, safe="") for segment in path) + (f"?{urlencode(query)}" if query else "")


def _content(answer: httpx.Response) -> Any:
    """Returns the parsed JSON; an empty object if there is no body; the text if it can't be parsed, as the version is plain text."""
    if not answer.content:
        return {}
    try:
        return answer.json()
    except (ValueError, RecursionError):
        return answer.text


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
