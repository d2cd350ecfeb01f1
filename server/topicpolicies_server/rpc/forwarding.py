"""Forwards changes to the sidecar that leads their namespace, where each log has one writer at a time (``--writer exclusive``).

A caller of any sidecar need not know who leads. A change goes one hop, never onwards: the call is marked, and a sidecar that receives a
marked call for a namespace that it does not lead answers NOT_LEADER. The leader sees the caller's principal as that of a proxy's call.

================================  =============================================  ==========================================================
what became of a forwarded call   what is known of its changes                   what is done
================================  =============================================  ==========================================================
it was answered                   all                                            the answer, or the leader's error, is the caller's
NOT_LEADER, SHUTTING_DOWN; or     nothing was changed                            the change is tried here again after a pause: by then
the leader can't be reached or                                                   this sidecar may lead, or know another leader
refuses this one's credentials
the connection broke, or there    they may have been made                        the same for a single change: its request id is looked up
was no answer in time                                                            before it is made. A change of a batch fails with
                                                                                 OUTCOME_UNKNOWN
================================  =============================================  ==========================================================

``Call.unsure``, or ``BatchedChange.unsure``, is set while a change may have been made, so that an error that says the contrary becomes
OUTCOME_UNKNOWN.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter

import grpc
from google.protobuf.message import DecodeError

from topicpolicies import Tls
from topicpolicies.errors import from_rpc_error, from_status
from topicpolicies.v1 import service_pb2

from ..access.caller import ORIGINAL_KEY
from ..core.chains.request import Outcome, unknown_outcome
from ..core.errors import Kind, PolicyError
from ..core.reasons import Reason
from ..core.traces import PARENT_KEY, STATE_KEY
from ..logs.change_log import NotLeader
from . import errors
from .calls import Call
from .requests import BatchedChange, ChangeMessage

_LOG = logging.getLogger(__name__)
FORWARDED_KEY = "topicpolicies-forwarded"
"""The metadata that marks a forwarded call."""
_SERVICE = service_pb2.DESCRIPTOR.services_by_name["TopicPoliciesService"].full_name
_CONNECT_SECONDS = 2.0
PAUSE_SECONDS = 0.05
"""How long a change waits before it is tried again: a new leader is elected meanwhile."""
_PART = 0.9
"""The part of a call's remaining time that the leader has, so that its reason comes before the deadline does."""
_NOT_MADE = (Reason.NOT_LEADER, Reason.SHUTTING_DOWN)
"""The reasons with which a leader refuses a change that another one may make soon."""
_OPTIONS = [
    ("grpc.use_local_subchannel_pool", 1),  # a new channel connects at once, whatever became of the one before
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    ("grpc.max_receive_message_length", -1),
]


class _NotAnswered(Exception):
    """The leader has not answered a change. ``sent``: whether it may have been made."""

    def __init__(self, *, sent: bool) -> None:
        super().__init__()
        self.sent = sent


class Forwarding:
    """The connections to other sidecars. It belongs to one event loop."""

    def __init__(self, seconds: float, *, tls: Tls | None, token: Callable[[], str]) -> None:
        """Connects to nobody yet. A change may take ``seconds``.

        ``tls``: with what other sidecars are reached; None: without TLS. ``token`` returns the token that this sidecar has at others, ""
        for none; it may raise ``OSError``.
        """
        self.seconds = seconds
        self._tls = tls
        self._token = token
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._warned: set[str] = set()
        """The leaders of which the log says already why they get no changes."""

    async def close(self) -> None:
        """Ends all connections."""
        await asyncio.gather(*(channel.close() for channel in self._channels.values()))

    async def change(self, call: Call, request: ChangeMessage, refused: NotLeader) -> bytes | None:
        """Returns the leader's serialized answer to a change; None: the change is to be tried here again.

        ``request`` gets its request id, if it has none. ``refused``: what it was refused with here.

        Raises:
            PolicyError: the leader's error; or NOT_LEADER, no leader is known, or the time of a change is over.
        """
        assert call.request is not None, "it was read"
        request.request_id = call.request.request_id
        leader = forwarded_to(refused, call)
        if not leader or perf_counter() - call.started >= self.seconds:
            raise refused
        unsure, call.unsure = call.unsure, True
        try:
            answer = await self._send(leader, call, request.SerializeToString())
        except _NotAnswered as error:
            call.unsure = unsure or error.sent
            await asyncio.sleep(PAUSE_SECONDS)
            return None
        except PolicyError:
            call.unsure = unsure
            raise
        call.outcome = Outcome(service_pb2.ChangeResult.FromString(answer).outcome)
        call.unsure = False
        return answer

    async def batch(self, call: Call, leader: str, changes: Sequence[BatchedChange]) -> list[service_pb2.ChangeResult | PolicyError | None]:
        """Returns what a leader made of some changes of a batch; None: it certainly was not made, and can be tried again.

        ``changes`` get their request ids, if they have none.
        """
        for change in changes:
            assert change.request is not None, "it was read"
            message = change.message.update if change.message.HasField("update") else change.message.delete
            message.request_id = change.request.request_id
            change.unsure = True
        request = service_pb2.BatchUpdatePoliciesRequest(changes=[change.message for change in changes])
        unknown = [unknown_outcome(change.request.request_id) for change in changes if change.request is not None]
        try:
            answer = service_pb2.BatchUpdatePoliciesResponse.FromString(await self._send(leader, call, request.SerializeToString()))
            return [_result(each, otherwise) for each, otherwise in zip(answer.results, unknown, strict=True)]
        except _NotAnswered as error:
            return [*unknown] if error.sent else [None] * len(changes)
        except PolicyError as error:
            return [error] * len(changes)
        except (ValueError, DecodeError) as error:  # of a newer version
            errors.log_failure(f"The answer of {leader} to a batch", error)
            return [*unknown]
        finally:
            for change in changes:
                change.unsure = False

    async def _send(self, leader: str, call: Call, request: bytes) -> bytes:
        """Makes a call of the leader.

        Raises:
            PolicyError: its error.
            _NotAnswered: there is none, or it does not lead either.
        """
        try:
            channel, metadata = await self._connected(leader), self._metadata(call)
        except OSError as problem:
            self._warn(leader, f"can't be sent changes: {problem}")
            raise _NotAnswered(sent=False) from None
        left = call.context.time_remaining()
        timeout = self.seconds + 1 if left is None else min(_PART * left, self.seconds + 1)
        method: Callable[..., Awaitable[bytes]] = channel.unary_unary(f"/{_SERVICE}/{call.method}")
        try:
            answer = await method(request, timeout=timeout, metadata=metadata)
        except grpc.aio.AioRpcError as failure:
            error = errors.received(from_rpc_error(failure))
            if error is None:
                raise _NotAnswered(sent=True) from None
            if error.kind is Kind.UNAUTHENTICATED or error.reason is Reason.PROXY_REFUSED:
                self._warn(leader, f"refuses the changes that this sidecar forwards: {error.message}")
                raise _NotAnswered(sent=False) from None
            if error.reason in _NOT_MADE:
                await asyncio.sleep(error.retry_seconds or 0)  # a server that stops waits until no more calls come
                raise _NotAnswered(sent=False) from None
            raise error from None
        self._warned.discard(leader)
        return answer

    async def _connected(self, leader: str) -> grpc.aio.Channel:
        """Returns a channel that is connected. One that can't connect is dropped, so that the next call connects at once.

        Raises:
            OSError: a file of TLS can't be used.
            _NotAnswered: there is no connection.
        """
        channel = self._channels.get(leader)
        if channel is None:
            channel = self._channels[leader] = self._channel(leader)
        ready, failed = grpc.ChannelConnectivity.READY, (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                while (state := channel.get_state(try_to_connect=True)) is not ready and state not in failed:
                    await channel.wait_for_state_change(state)
        except TimeoutError:
            state = failed[0]
        if state is ready:
            return channel
        if self._channels.get(leader) is channel:
            del self._channels[leader]  # other calls may wait for it; it closes when the last of them lets go of it
        raise _NotAnswered(sent=False)

    def _channel(self, leader: str) -> grpc.aio.Channel:
        target = leader if leader.startswith("unix:") else f"dns:///{leader}"
        if self._tls is None:
            return grpc.aio.insecure_channel(target, options=_OPTIONS)
        return grpc.aio.secure_channel(target, self._tls.credentials(), options=_OPTIONS)

    def _metadata(self, call: Call) -> list[tuple[str, str]]:
        token, role = self._token(), call.caller.role
        if not role.isascii():
            raise OSError(f"metadata can't name the principal {role}")
        of_sidecar = [("authorization", f"Bearer {token}")] if token else []
        of_caller = [(ORIGINAL_KEY, role)] if role else []
        trace = [(key, str(value)) for key, value in call.metadata if key in (PARENT_KEY, STATE_KEY)]
        return [(FORWARDED_KEY, "1"), *of_sidecar, *of_caller, *trace]

    def _warn(self, leader: str, problem: str) -> None:
        if leader not in self._warned:
            self._warned.add(leader)
            _LOG.warning("the sidecar at %s %s", leader, problem)


def _result(answer: service_pb2.PolicyChangeResult, otherwise: PolicyError) -> service_pb2.ChangeResult | PolicyError | None:
    """Returns the result of one change; None: it was not made. ``otherwise``: in place of an error that only a newer version knows."""
    if not answer.HasField("error"):
        return answer.success
    try:
        error = errors.received(from_status(answer.error.code, answer.error.message, answer.error.details)) or errors.internal()
    except ValueError:
        return otherwise
    return None if error.reason in _NOT_MADE else error


def forwarded_to(refused: NotLeader, call: Call) -> str:
    """Returns the address of the leader that a refused change is forwarded to; "": it is not forwarded."""
    return "" if any(key == FORWARDED_KEY for key, _ in call.metadata) else refused.metadata.get("leader", "")
