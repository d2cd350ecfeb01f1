"""Clients of all languages change one document while the leader changes: each follows the leaders, and no change is lost."""

from __future__ import annotations

import asyncio
import socket
from itertools import cycle

import pytest

from tests.clients.changing import changed, commands
from tests.clients.members import Member
from tests.promises.server_process import ServerProcess
from tests.validators.links import Link, chain

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_TOPIC = "persistent://public/default/led"
_TURNS = 80
_TERM_SECONDS = 0.2


async def test_clients_of_four_languages_follow_changing_leaders_and_lose_no_change(server: ServerProcess) -> None:
    programs = await asyncio.to_thread(commands)
    with socket.socket() as silent:  # the first address can't be reached: the socket is bound and does not listen
        silent.bind(("127.0.0.1", 0))
        async with Member(server.address) as one, Member(server.address) as two:
            leading = asyncio.create_task(_take_turns(one, two))
            addresses = [f"127.0.0.1:{silent.getsockname()[1]}", one.address, two.address]
            try:
                printed = await changed(programs, ",".join(addresses), _TOPIC, _TURNS)
            finally:
                leading.cancel()
    changes = [(name, *line.split()[1:]) for name, lines in printed.items() for line in lines if line.startswith("changed ")]
    found = chain([Link(f"{name} {turn}", previous, version) for name, turn, previous, version in changes])
    assert not found.broken
    assert len(found.links) == len(printed) * _TURNS
    for name in printed:  # each was refused by followers, and then accepted by both leaders
        assert one.refused[name] + two.refused[name] > 2, (name, one.refused, two.refused)
        assert min(one.accepted[name], two.accepted[name]) > 2, (name, one.accepted, two.accepted)
    print(f"changes that were refused: {one.refused + two.refused}")


async def _take_turns(*members: Member) -> None:
    """Makes the members the leader in turn; all know the new leader at once."""
    for leader in cycle(members):
        for member in members:
            member.leader = leader.address
        await asyncio.sleep(_TERM_SECONDS)
