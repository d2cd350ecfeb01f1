"""The connection of a client: TLS, channel options, and the metadata that is sent with each call."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import grpc

from . import traces
from .addresses import addresses_of, is_local
from .arguments import text
from .errors import Violation, invalid
from .stubs import Metadata

ACTOR_KEY = "topicpolicies-actor"
"""The key of the metadata that names the actor: who makes a change."""
StrPath: TypeAlias = str | os.PathLike[str]
Token: TypeAlias = str | Callable[[], str]
"""A bearer token, or a function that returns the current one; it is called for each call, and must not block."""

_KEY = re.compile(r"[0-9a-z_.-]+")
"""Matches the keys of metadata that gRPC sends."""

OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.keepalive_time_ms", 30_000),  # detects a connection that broke silently
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    ("grpc.max_receive_message_length", 64 << 20),
)
"""The default channel options; options of the caller come after them and override them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The TLS configuration of a client. All files are PEM."""

    ca_file: StrPath | None = None
    """The certificate authorities that may have signed the server's certificate; None: gRPC's default."""
    certificate_file: StrPath | None = None
    """The client's own certificate, if the server requires one (mutual TLS)."""
    key_file: StrPath | None = None
    """The private key of the client's certificate."""
    server_name: str | None = None
    """The host name in the server's certificate, if it differs from the address."""

    def credentials(self) -> grpc.ChannelCredentials:
        """Returns gRPC's credentials for this configuration; reads the files.

        Raises:
            OSError: a file can't be read.
        """
        return grpc.ssl_channel_credentials(
            Path(self.ca_file).read_bytes() if self.ca_file else None,
            Path(self.key_file).read_bytes() if self.key_file else None,
            Path(self.certificate_file).read_bytes() if self.certificate_file else None,
        )


def credentials_for(target: str, tls: bool | Tls | None) -> grpc.ChannelCredentials | None:
    """Returns the credentials for a target, and for the leaders that its servers name; None: without TLS.

    Args:
        target: one address or several.
        tls: whether to use TLS, and how; None: TLS, unless all addresses are on this machine.

    Raises:
        OSError: a file of ``tls`` can't be read.
    """
    if tls is False or (tls is None and all(map(is_local, addresses_of(target)))):
        return None
    return (tls if isinstance(tls, Tls) else Tls()).credentials()


def options_for(address: str, tls: bool | Tls | None, options: Iterable[tuple[str, int | str]]) -> tuple[tuple[str, int | str], ...]:
    """Returns the options of the channel to an address: the defaults, the server's name of ``tls``, then ``options``."""
    name = tls.server_name if isinstance(tls, Tls) else None
    named = (("grpc.ssl_target_name_override", name),) if name else ()
    # gRPC would send what is meant for this machine, a token too, to the ``http_proxy`` of the environment, without TLS.
    direct = (("grpc.enable_http_proxy", 0),) if is_local(address) else ()
    return (*OPTIONS, *named, *direct, *options)


def metadata_for(actor: str, token: Token | None, metadata: Iterable[tuple[str, str]]) -> Callable[[], Metadata]:
    """Returns a function that returns the metadata of a call: the actor, ``metadata``, the trace context and the token.

    The function raises InvalidArgument, too, if what the caller's token function returns is no token.

    Raises:
        InvalidArgument: the actor, ``metadata`` or the token can't be sent as metadata.
    """
    if actor and not (text(actor, "actor").isascii() and actor.isprintable() and actor == actor.strip()):
        problem = "The actor is sent as metadata: printable ASCII, without blanks around it. A change's own actor may be any text."
        raise invalid("MALFORMED_ACTOR", Violation("actor", "MALFORMED_ACTOR", problem))
    fixed = (*(((ACTOR_KEY, actor),) if actor else ()), *map(_checked_pair, metadata))
    given_token = token if token is None or callable(token) else _checked_token(token)

    def current() -> Metadata:
        given = fixed if any(key == traces.PARENT_KEY for key, _ in fixed) else (*fixed, *traces.current())
        if given_token is None:
            return given
        bearer = _checked_token(given_token()) if callable(given_token) else given_token
        return (*given, ("authorization", f"Bearer {bearer}"))

    return current


def _checked_token(token: Any) -> str:
    if not isinstance(token, str) or not token.isascii() or not token.isprintable():  # the token itself is not shown: it is a secret
        what = "not a text" if not isinstance(token, str) else "not printable ASCII; perhaps it ends with the line end of its file"
        raise invalid("MALFORMED_TOKEN", Violation("token", "MALFORMED_TOKEN", f"The token can't be sent as metadata: it is {what}."))
    checked: str = token
    return checked


def _checked_pair(pair: Any) -> tuple[str, str]:
    if isinstance(pair, (tuple, list)) and len(pair) == 2 and isinstance(pair[0], str) and _KEY.fullmatch(pair[0]):
        key, value = pair
        if key.endswith("-bin") or (isinstance(value, str) and value.isascii() and value.isprintable()):
            return key, value
    problem = 'metadata takes pairs such as [("key", "value")]: a key of a-z, 0-9, "-", "_" and ".", and a value of printable ASCII.'
    raise invalid("MALFORMED_METADATA", Violation("metadata", "MALFORMED_METADATA", problem))


def check_token(address: str, credentials: grpc.ChannelCredentials | None, token: Token | None) -> None:
    """Checks that a token is not sent in plaintext to another machine.

    Raises:
        InvalidArgument: there is a token, and the connection goes to another machine without TLS.
    """
    if token is not None and credentials is None and not all(map(is_local, addresses_of(address))):
        problem = f"A token is not sent to another machine ({address}) without TLS."
        raise invalid("TOKEN_IN_THE_CLEAR", Violation("token", "TOKEN_IN_THE_CLEAR", problem))
