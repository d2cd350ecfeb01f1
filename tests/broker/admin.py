"""A client of a broker's admin API, as far as tests need it."""

import threading
import time
import uuid
from types import TracebackType
from typing import Any, Self

import httpx

from tests.broker import compacting
from tests.plain_http import NO_TLS

CHANGE_EVENTS = "__change_events"
"""The local name of a namespace's system topic of policy events."""

_POLL_S = 0.1
_CONFLICT = 409


class AdminError(Exception):
    """The broker refused a call.

    Attributes:
        status: the HTTP status.
        reason: the reason in the broker's answer.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status}: {reason}")
        self.status = status
        self.reason = reason


class Admin:
    """A client of the admin API. Blocking: in asyncio code, call it through ``asyncio.to_thread``.

    Each thread has connections of its own: a pool that threads share can close a connection that another thread has just begun to use
    (httpcore 1.0.9 checks whether a connection has expired without checking whether it is in use).
    """

    def __init__(self, url: str, *, token: str | None = None) -> None:
        """Connects on first use.

        Args:
            url: the URL of the broker's web service.
            token: a bearer token to send.
        """
        self._url = f"{url}/admin/v2/"
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._mine = threading.local()
        self._clients: list[httpx.Client] = []

    def call(self, method: str, path: str, body: object = None, **query: str) -> Any:
        """Makes one call below ``/admin/v2``. Returns the answer's JSON, or its text, or None if it is empty.

        Raises:
            AdminError: the broker answered with 400 or above.
        """
        answer = self._http.request(method, path, json=body, params=query)
        if answer.is_error:
            raise AdminError(answer.status_code, _reason(answer))
        if not answer.content:
            return None
        try:
            return answer.json()
        except ValueError:  # some calls answer with bare text and label it JSON
            return answer.text

    def headers(self, path: str, **query: str) -> dict[str, str]:
        """Returns the headers of the answer to a GET below ``/admin/v2``, by name in lower case: they describe single messages.

        Raises:
            AdminError: the broker answered with 400 or above.
        """
        answer = self._http.get(path, params=query)
        if answer.is_error:
            raise AdminError(answer.status_code, _reason(answer))
        return {name.lower(): value for name, value in answer.headers.items()}

    def ready(self) -> bool:
        """Whether the broker has created ``public/default`` and can store and read a message."""
        try:
            if "public/default" not in self.call("GET", "namespaces/public"):
                return False
            self.call("GET", "brokers/health")
            return True
        except (AdminError, httpx.TransportError):
            return False

    def create_namespace(self, prefix: str = "test") -> str:
        """Creates a namespace of the tenant ``public`` with a new name, ``public/prefix-...``, and returns the name."""
        namespace = f"public/{prefix}-{uuid.uuid4().hex[:12]}"
        self.call("PUT", f"namespaces/{namespace}", {"replication_clusters": ["standalone"]})
        return namespace

    def compact_only_on_request(self, namespace: str) -> None:
        """Makes brokers compact a namespace's change log on request only, instead of every minute.

        For tests that read a log themselves: a log that is compacted while it is read must be opened again, as servers do. In a run with
        ``--compact-every`` this does nothing, except in tests that are about one compaction (``compacting``).
        """
        if compacting.exempt():
            self.call("PUT", f"namespaces/{namespace}/compactionThreshold", 1 << 40)

    def create_topic(self, topic: str, *, partitions: int = 0) -> None:
        """Creates a topic, given as ``tenant/namespace/topic``, with partitions if ``partitions`` is not 0."""
        if partitions:
            self.call("PUT", f"persistent/{topic}/partitions", partitions)
        else:
            self.call("PUT", f"persistent/{topic}")

    def partition_change_events(self, namespace: str, partitions: int) -> None:
        """Creates the system topic of a namespace with partitions. To be called first: otherwise the first topic that loads creates it."""
        self.create_topic(f"{namespace}/{CHANGE_EVENTS}", partitions=partitions)

    def partitions_of(self, topic: str) -> list[str]:
        """Returns the partitions of a topic, each as ``tenant/namespace/topic``, or the topic itself if it has none."""
        count = self.call("GET", f"persistent/{topic}/partitions")["partitions"]
        return [f"{topic}-partition-{number}" for number in range(count)] or [topic]

    def compact_change_events(self, namespace: str, *, timeout_s: float = 30) -> None:
        """Compacts every partition of a namespace's system topic, and waits until that is done.

        Raises:
            TimeoutError: it was not done in time.
        """
        for topic in self.partitions_of(f"{namespace}/{CHANGE_EVENTS}"):
            self.compact(topic, timeout_s=timeout_s)

    def compact(self, topic: str, *, timeout_s: float = 30) -> None:
        """Compacts one topic with all its present messages, and waits until that is done.

        Raises:
            AdminError: the compaction failed.
            TimeoutError: it was not done in time.
        """
        deadline = time.monotonic() + timeout_s
        while not self._started(topic):
            self._await_compacted(topic, deadline)  # a compaction that runs already may have begun too early
        self._await_compacted(topic, deadline)

    def close(self) -> None:
        """Closes the connections."""
        for client in self._clients:
            client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def _http(self) -> httpx.Client:
        """The HTTP client of this thread."""
        client: httpx.Client | None = getattr(self._mine, "client", None)
        if client is None:
            client = httpx.Client(base_url=self._url, headers=self._headers, timeout=30, trust_env=False, verify=NO_TLS)
            self._mine.client = client
            self._clients.append(client)
        return client

    def _started(self, topic: str) -> bool:
        try:
            self.call("PUT", f"persistent/{topic}/compaction")
        except AdminError as error:
            if error.status != _CONFLICT:
                raise
            return False
        return True

    def _await_compacted(self, topic: str, deadline: float) -> None:
        while (state := self.call("GET", f"persistent/{topic}/compaction"))["status"] == "RUNNING":
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} was not compacted in time")
            time.sleep(_POLL_S)
        if state["status"] == "ERROR":
            raise AdminError(500, state["lastError"])


def _reason(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["reason"])
    except (ValueError, KeyError, TypeError):
        return answer.text
