"""What one partition is read from: pulsar-client's reader, or the next one in its place."""

from __future__ import annotations

import uuid
from typing import Any

from ..access import Access
from ..client import PulsarClientError, close_quietly, refusal
from ..ids import NOWHERE, MessageId


class Source:
    """Opens the readers of one partition, of which there is one at a time.

    Attributes:
        handle: pulsar-client's reader; None: none was opened yet.
    """

    def __init__(self, access: Access, namespace: str, topic: str, full_name: str) -> None:
        """Opens nothing yet.

        Args:
            access: the ways to the brokers.
            namespace: ``tenant/namespace``.
            topic: the local name of one of the log's topics.
            full_name: the same, as clients name it.
        """
        self.handle: Any = None
        self._access = access
        self._namespace = namespace
        self._topic = topic
        self._full_name = full_name
        self._name = ""

    async def open(self, last: MessageId = NOWHERE) -> Any:
        """Another reader of what is left over by compaction and what follows that, in place of the one before, if there was one.

        Args:
            last: what was read last: reading begins there, or behind it if it is not there any more.

        Raises:
            PulsarClientError: it could not be created in time.
            LogError: the client is closed.
        """
        name = f"topicpolicies-{uuid.uuid4().hex}"
        resumed = None if last == NOWHERE else last
        handle = await self._access.client.create_reader(self._full_name, name, queue_size=self._access.limits.received, resumed=resumed)
        former, self.handle, self._name = self.handle, handle, name
        close_quietly(former)
        return handle

    async def reopen(self, last: MessageId) -> Any:
        """The same where there was one before.

        Raises:
            LogError: it could not be created in time.
        """
        try:
            return await self.open(last)
        except PulsarClientError as error:
            raise refusal(f"Opening a reader of {self._full_name} anew", error.result, error.message) from error

    async def has_sent(self, last: MessageId) -> bool:
        """Asks the broker whether it has sent everything up to an entry to the reader, which waits for more.

        Raises:
            LogError: there is no answer.
        """
        return await self._access.topics.dispatched(self._namespace, self._topic, self._name, last)
