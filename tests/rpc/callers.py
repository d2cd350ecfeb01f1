"""Callers that name themselves in their metadata, and are believed: for tests of permissions, not of authentication."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import grpc

from topicpolicies_server.access import Caller, Way
from topicpolicies_server.config import (
    AuthenticationConfig,
    AuthorizationConfig,
    EmbeddedLogConfig,
    HistoryConfig,
    ServerConfig,
    TokenConfig,
    parse_address,
)
from topicpolicies_server.rpc.calls import Call
from topicpolicies_server.rpc.server import Server

Metadata: TypeAlias = tuple[tuple[str, str], ...]
PRINCIPAL_KEY, FOR_KEY = "tested-principal", "tested-for"
ROLES = """
superusers = ["admin"]

[[grants]]
roles = ["reader"]
namespaces = ["acme/orders"]
permissions = ["read"]

[[grants]]
roles = ["watcher"]
namespaces = ["acme/orders"]
permissions = ["watch"]

[[grants]]
roles = ["changer"]
namespaces = ["acme/orders"]
permissions = ["change"]

[[grants]]
roles = ["historian"]
namespaces = ["acme/orders"]
permissions = ["history"]

[[grants]]
roles = ["keeper"]
namespaces = ["acme/*"]
permissions = ["change", "watch", "secrets"]

[[grants]]
roles = ["owner", "gateway"]
namespaces = ["acme/*"]
permissions = ["read", "watch", "change", "history"]

[[grants]]
roles = ["stranger"]
namespaces = ["other/*"]
permissions = ["read", "watch", "change", "history", "secrets"]
"""


def believe(call: Call) -> Caller:
    """Returns the caller that the metadata name: it verifies nothing."""
    pairs = {key: value for key, value in call.metadata if isinstance(value, str)}
    principal = pairs.get(PRINCIPAL_KEY, "")
    return Caller(principal, Way.TOKEN if principal else Way.NONE, pairs.get(FOR_KEY, ""))


def of(caller: str) -> Metadata:
    """Returns the metadata of a caller: a role, or two of them as ``proxy>role``; "": a caller without a name."""
    principal, _, role = caller.partition(">")
    named = ((PRINCIPAL_KEY, principal), (FOR_KEY, role))
    return tuple((key, value) for key, value in named if value)


def asking(directory: Path) -> AuthenticationConfig:
    """Returns a valid configuration of authentication; ``believe`` then takes its place."""
    key = directory / "secret.key"
    key.write_bytes(bytes(range(32)))
    return AuthenticationConfig(token=TokenConfig(secret_key_file=key))


@asynccontextmanager
async def guarded(directory: Path, text: str = ROLES) -> AsyncIterator[tuple[Server, grpc.aio.Channel, Path]]:
    """Runs a server with a history and a log in memory, whose permissions are in a file of roles.

    Yields the server, a channel to it, and the file.
    """
    path = directory / "roles.toml"
    path.write_text(text)
    config = ServerConfig(
        log=EmbeddedLogConfig(path=None),
        listen=parse_address("127.0.0.1:0"),
        history=HistoryConfig(path=directory / "history.db"),
        authentication=asking(directory),
        authorization=AuthorizationConfig(file=path),
    )
    async with Server(config) as server, grpc.aio.insecure_channel(server.address) as channel:
        server.calls.identify = believe
        yield server, channel, path
