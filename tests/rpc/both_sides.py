"""Compares what a server and its broker permit to the same principal over the same transport; and makes tokens that are not valid."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Self

import grpc
import httpx
import jwt

from tests.broker.credentials import Authority, Identity, trusting
from tests.broker.pulsar_broker import Broker
from tests.rpc.callers import Metadata
from tests.rpc.test_permissions import CALLS, refusal_of
from topicpolicies_server.access.identification import ORIGINAL_KEY
from topicpolicies_server.config import ServerConfig, TlsConfig
from topicpolicies_server.rpc.server import Server

PLAINTEXT, TLS, MUTUAL = TRANSPORTS = ("plaintext", "TLS", "mutual TLS")
_NO_ENTRY = (401, 403)
_SECONDS = 30.0
_LOOK_SECONDS = 0.02


def lets(broker: Broker, shown: Metadata, method: str, path: str, body: object = None, http: httpx.Client | None = None) -> bool:
    """Returns whether the broker's admin API permits a request with these credentials.

    Args:
        broker: the broker.
        shown: the metadata that the server is sent too.
        method: the HTTP method.
        path: the path below ``/admin/v2/``.
        body: the body, as JSON.
        http: the client that is used; None: one without TLS.
    """
    headers = {"X-Original-Principal" if name == ORIGINAL_KEY else name: value for name, value in shown}
    if http is None:
        with httpx.Client(base_url=broker.admin_url, timeout=_SECONDS, trust_env=False) as plain:
            return lets(broker, shown, method, path, body, plain)
    answer = http.request(method, f"/admin/v2/{path}", json=body, headers=headers)
    if answer.status_code in _NO_ENTRY:
        return False
    assert answer.is_success or answer.status_code == httpx.codes.NOT_FOUND, (answer.status_code, answer.text)
    return True


class BothSides:
    """Asks both sides. Over mutual TLS each principal has connections of its own, with a certificate and without a token."""

    def __init__(self, broker: Broker, authority: Authority, server: Server, transport: str, stack: AsyncExitStack) -> None:
        """``stack``: closes the connections that are opened."""
        self._broker, self._authority, self._server, self._transport, self._stack = broker, authority, server, transport, stack
        self._opened: dict[str, tuple[grpc.aio.Channel, httpx.Client]] = {}

    async def answers(self, caller: str, questions: Mapping[str, tuple[str, str, object]]) -> tuple[dict[str, bool], dict[str, bool]]:
        """Returns which calls the server permits to a caller, and which requests the broker permits to it.

        Args:
            caller: ``principal`` or ``proxy>principal``; "": a caller without credentials.
            questions: by the name of each call, the corresponding request to the admin API.
        """
        principal, _, original = caller.partition(">")
        mutual = self._transport == MUTUAL
        shown: Metadata = (("authorization", f"Bearer {self._broker.token(principal)}"),) if principal and not mutual else ()
        shown = (*shown, (ORIGINAL_KEY, original)) if original else shown
        channel, http = await self._open(principal if mutual else "")
        ours = {call: await refusal_of(CALLS[call][0], channel, caller, lambda _: shown) is None for call in questions}
        asked = questions.items()
        theirs = {call: await asyncio.to_thread(lets, self._broker, shown, *question, http) for call, question in asked}
        return ours, theirs

    async def _open(self, name: str) -> tuple[grpc.aio.Channel, httpx.Client]:
        if name not in self._opened:
            identity = self._authority.issue(name) if name else None
            url = self._broker.admin_url if self._transport == PLAINTEXT else self._broker.admin_url_tls
            context = trusting(self._authority.trust)
            if identity is not None:
                context.load_cert_chain(identity.certificate, identity.key)
            http = self._stack.enter_context(httpx.Client(base_url=url, verify=context, timeout=_SECONDS, trust_env=False))
            self._opened[name] = await self._stack.enter_async_context(self._channel(identity)), http
        return self._opened[name]

    def _channel(self, identity: Identity | None) -> grpc.aio.Channel:
        if self._transport == PLAINTEXT:
            return grpc.aio.insecure_channel(self._server.address)
        pair = (None, None) if identity is None else (identity.key.read_bytes(), identity.certificate.read_bytes())
        credentials = grpc.ssl_channel_credentials(self._authority.trust.read_bytes(), *pair)
        return grpc.aio.secure_channel(self._server.address, credentials, options=[("grpc.use_local_subchannel_pool", 1)])


@asynccontextmanager
async def both_sides(broker: Broker, authority: Authority, config: ServerConfig, transport: str) -> AsyncIterator[BothSides]:
    """Runs a server with this configuration, which listens over this transport, for a broker with tokens and certificates."""
    if transport != PLAINTEXT:
        own = authority.issue("server")
        mutual = authority.trust if transport == MUTUAL else None
        config = replace(config, tls=TlsConfig(certificate_file=own.certificate, key_file=own.key, client_ca_file=mutual))
    if transport == MUTUAL:
        config = replace(config, authentication=replace(config.authentication, certificate="cn"))
    async with Server(config) as server, AsyncExitStack() as opened:
        yield BothSides(broker, authority, server, transport, opened)


def tokens(secret: bytes, audience: str) -> dict[str, str]:
    """Returns tokens of ``owner``, who has the permission, by a description; only those whose description begins with "good" are valid."""
    now = int(time.time())
    owner: dict[str, object] = {"sub": "owner", "aud": audience}
    good = jwt.encode(owner, secret, "HS256")
    header, _, signature = good.split(".")
    another = jwt.encode({**owner, "sub": "admin"}, secret, "HS256").split(".")[1]
    return {
        "good": good,
        "good for an hour": jwt.encode({**owner, "exp": now + 3_600, "nbf": now - 60}, secret, "HS256"),
        "good for another audience too": jwt.encode({**owner, "aud": ["another", audience]}, secret, "HS256"),
        "expired": jwt.encode({**owner, "exp": now - 3_600}, secret, "HS256"),
        "not good yet": jwt.encode({**owner, "nbf": now + 3_600}, secret, "HS256"),
        "signed with another key": jwt.encode(owner, bytes(32), "HS256"),
        "signed with too short a key for its algorithm": jwt.encode(owner, secret, "HS512"),
        "not signed": jwt.encode(owner, "", "none"),
        "another's words with this one's signature": f"{header}.{another}.{signature}",
        "without its signature": good.rpartition(".")[0] + ".",
        "without a subject": jwt.encode({"name": "owner", "aud": audience}, secret, "HS256"),
        "with an empty subject": jwt.encode({**owner, "sub": ""}, secret, "HS256"),
        "for another audience": jwt.encode({**owner, "aud": "another"}, secret, "HS256"),
        "for other audiences": jwt.encode({**owner, "aud": ["another", f"{audience}s"]}, secret, "HS256"),
        "for no audience": jwt.encode({"sub": "owner"}, secret, "HS256"),
        "for an audience in another case": jwt.encode({**owner, "aud": audience.upper()}, secret, "HS256"),
        "no token": "owner",
    }


class Delays:
    """Measures by how many seconds the event loop was late in all: a busy machine adds as much to every wait on it."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._measure())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None, "the measurement has not begun"
        self._task.cancel()

    async def _measure(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _LOOK_SECONDS
            await asyncio.sleep(_LOOK_SECONDS)
            self.seconds += max(0.0, loop.time() - due)
