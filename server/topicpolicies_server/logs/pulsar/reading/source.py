"""The client library's reader of one partition, and its replacements."""

from __future__ import annotations

import uuid
from typing import Any

from ..access import Access
from ..client import PulsarClientError, close_quietly, refusal
from ..ids import NOWHERE, MessageId


class Source:
    """Opens the readers of one partition, one at a time.

    Attributes:
        handle: pulsar-client's current reader; None: none was opened yet.
    """

    def __init__(self, access: Access, namespace: str, topic: str, full_name: str) -> None:
        """Opens nothing yet.

        Args:
            access: the clients for the brokers.
            namespace: ``tenant/namespace``.
            topic: the local name of one of the log's topics.
            full_name: the full name of that topic, as clients use it.
        """
        self.handle: Any = None
        self._access = access
        self._namespace = namespace
        self._topic = topic
        self._full_name = full_name
        self._name = ""

    async def open(self, last: MessageId = NOWHERE) -> Any:
        """Opens a compacted reader, which replaces the previous one if there is one.

        The reader gets what compaction left over, and every entry after that.

        Args:
            last: the entry that was read last: the new reader begins there, or after it if that entry is gone.

        Raises:
            PulsarClientError: the reader could not be created in time.
            LogError: the client is closed.
        """
        name = f"topicpolicies-{uuid.uuid4().hex}"
        resumed = None if last == NOWHERE else last
        handle = await self._access.client.create_reader(self._full_name, name, queue_size=self._access.limits.received, resumed=resumed)
        former, self.handle, self._name = self.handle, handle, name
        close_quietly(former)
        return handle

    async def reopen(self, last: MessageId) -> Any:
        """Calls ``open`` in place of an earlier reader; a failure of the library is a ``LogError`` here.

        Raises:
            LogError: the reader could not be created in time, or the client is closed.
        """
        try:
            return await self.open(last)
        except PulsarClientError as error:
            raise refusal(f"Opening a reader of {self._full_name} again", error.result, error.message) from error

    async def has_sent(self, last: MessageId) -> bool:
        """Asks the broker whether it has sent the reader every entry up to ``last`` and waits for new ones.

        Raises:
            LogError: the broker gave no answer.
        """
        return await self._access.topics.sent_up_to(self._namespace, self._topic, self._name, last)
