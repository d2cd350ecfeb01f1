"""Listings: iterators over the documents of a namespace, which fetch page after page, and the token from which a watch continues."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import datetime
from typing import TypeAlias

from .documents import Document, known_documents
from .tokens import ResumeToken, WatchToken
from .v1 import service_pb2

Page: TypeAlias = tuple[service_pb2.ListPoliciesResponse, datetime | None]
"""A page, and since when it can't be confirmed (None: it is confirmed)."""


class _BaseListing:
    """The common part of ``Listing`` and ``AsyncListing``."""

    def __init__(self, request: service_pb2.ListPoliciesRequest) -> None:
        """``request``: the request for the first page."""
        self._request = request
        self._documents: deque[Document] = deque()
        self._last = False
        self._token = ResumeToken()
        self._unconfirmed_since: datetime | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._request.namespace}>"

    @property
    def token(self) -> ResumeToken:
        """The place where the first page was read: a watch that begins there misses nothing. Empty before the first page was read."""
        return self._token

    @property
    def unconfirmed_since(self) -> datetime | None:
        """Since when the server can't reach the change log, in UTC; None: it can. From the page read last, whose documents have it too."""
        return self._unconfirmed_since

    def _take(self, answer: Page) -> None:
        page, self._unconfirmed_since = answer
        if page.HasField("token"):
            self._token = ResumeToken({self._request.namespace: WatchToken.of(page.token)})
        self._documents.extend(known_documents(page.documents, self._unconfirmed_since))
        self._request.page_token = page.next_page_token
        self._last = not page.next_page_token


class Listing(_BaseListing, Iterator[Document]):
    """An iterator over the documents of a namespace, ordered by topic and scope; see ``Client.list``."""

    def __init__(
        self,
        request: service_pb2.ListPoliciesRequest,
        fetch: Callable[[service_pb2.ListPoliciesRequest], Page],
    ) -> None:
        super().__init__(request)
        self._fetch = fetch

    def __next__(self) -> Document:
        while not self._documents:
            if self._last:
                raise StopIteration
            self._take(self._fetch(self._request))
        return self._documents.popleft()


class AsyncListing(_BaseListing, AsyncIterator[Document]):
    """An async iterator over the documents of a namespace, ordered by topic and scope; see ``AsyncClient.list``."""

    def __init__(
        self,
        request: service_pb2.ListPoliciesRequest,
        fetch: Callable[[service_pb2.ListPoliciesRequest], Awaitable[Page]],
    ) -> None:
        super().__init__(request)
        self._fetch = fetch

    async def __anext__(self) -> Document:
        while not self._documents:
            if self._last:
                raise StopAsyncIteration
            self._take(await self._fetch(self._request))
        return self._documents.popleft()
