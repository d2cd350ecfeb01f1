"""Peers that read nothing are named in the server's log."""

from __future__ import annotations

import logging

import pytest

from topicpolicies_server.access import Caller, Way
from topicpolicies_server.rpc.call import Call, State
from topicpolicies_server.rpc.calls import Calls
from topicpolicies_server.rpc.unread import MOST, TOLD_SECONDS, Unread


class Context:
    """A fake of gRPC's context, with what is needed of it."""

    def peer(self) -> str:
        return "ipv4:10.0.0.7:4321"

    def time_remaining(self) -> None:
        return None

    def invocation_metadata(self) -> None:
        return None


def writing(calls: Calls, seconds: float) -> Call:
    """Registers a watch whose peer has read nothing for so many seconds."""
    call = calls.arrived("WatchPolicies", Context())
    call.caller = Caller("alice", Way.TOKEN)
    calls.register(call, endless=True)
    call.goes_to(State.WRITING)
    call.since -= seconds
    return call


async def test_a_peer_that_reads_nothing_is_logged_once_and_so_is_that_it_reads_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "topicpolicies_server.rpc.unread")
    calls = Calls(100)
    unread = Unread(calls)
    slow = writing(calls, TOLD_SECONDS - 5)
    unread.look()
    assert caplog.messages == [], "the peer was named too early"
    slow.since -= 10
    for _ in range(3):
        unread.look()
    named = 'WatchPolicies of "alice" from ipv4:10.0.0.7:4321'
    assert caplog.messages == [f"{named} has read nothing for {TOLD_SECONDS + 5:.0f} s: it delays no other caller"]
    slow.goes_to(State.WORKING)
    unread.look()
    unread.look()
    assert caplog.messages[1:] == [f"{named} reads again, or has disconnected"]


async def test_peers_beyond_the_most_that_are_named_are_only_counted(caplog: pytest.LogCaptureFixture) -> None:
    calls = Calls(100)
    for _ in range(MOST + 5):
        writing(calls, TOLD_SECONDS + 1)
    Unread(calls).look()
    assert len(caplog.messages) == MOST + 1 and caplog.messages[-1].startswith("5 others have read nothing")
