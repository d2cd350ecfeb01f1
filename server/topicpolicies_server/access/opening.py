"""Opens the authentication of callers by the configuration: reads its files for the first time, and lists them for reloading."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from .. import regular_file
from ..config import AuthenticationConfig, OidcConfig, TokenConfig
from ..core.errors import Kind, PolicyError
from ..core.reasons import Reason
from . import keys
from .certificates import Certificates
from .identification import Identification
from .issuer_client import IssuerClient
from .issuers import Issuers, OidcRules
from .jwks import key_set
from .tokens import TokenRules, Tokens

_T = TypeVar("_T")


class Source(NamedTuple):
    """A file with keys that are in force, as described to the code that reads it again when it changes."""

    name: str
    files: tuple[Path, ...]
    read: Callable[[], Any]
    """Reads the file. Raises ``OSError`` or ``ValueError``, with a clause that says why it can't be used."""
    take: Callable[[Any], None]
    """Puts in force what was read."""
    present: Any
    """What is in force now."""


class Opened:
    """An open ``Identification``, with the resources that it uses."""

    def __init__(self, config: AuthenticationConfig) -> None:
        """Opens the files. Issuers are asked from now on, on the running event loop.

        Raises:
            PolicyError: UNAVAILABLE, ``AUTHORIZATION_UNKNOWN``: a file has no key that can be used.
        """
        self.sources: list[Source] = []
        """The files that were read."""
        self._asking: IssuerClient | None = None
        tokens = self._tokens(config.token, config.leeway_seconds) if config.token is not None else None
        self._issuers = self._open_issuers(config.oidc, config.leeway_seconds) if config.oidc is not None else None
        self.identification = Identification(
            tokens=tokens,
            issuers=self._issuers,
            certificates=Certificates(config.certificate) if config.certificate else None,
            proxy_roles=frozenset(config.proxy_roles),
        )
        if self._issuers is not None:
            self._issuers.start()

    async def close(self) -> None:
        """Ends requests to issuers and closes their connections."""
        if self._issuers is not None:
            await self._issuers.close()
        if self._asking is not None:
            await self._asking.close()

    def _tokens(self, config: TokenConfig, leeway: float) -> Tokens:
        rules = TokenRules(config.role_claim, config.audience_claim, config.audience, leeway)
        secret, public = config.secret_key_file, config.public_key_file
        if secret is not None:
            name, path, one = "token secret key", secret, keys.secret_key
        else:
            assert public is not None, "the configuration has one of them"
            name, path, one = "token public key", public, lambda content: keys.public_key(content, config.public_algorithm)

        def read(content: bytes) -> tuple[keys.Key, ...]:
            return keys.several(content, one)

        found = _first(name, path, read)
        tokens = Tokens(found, rules)
        self.sources.append(Source(name, (path,), lambda: read(regular_file.read(path)), tokens.take, found))
        return tokens

    def _open_issuers(self, config: OidcConfig, leeway: float) -> Issuers:
        rules = OidcRules(frozenset(config.audiences), config.role_claim, leeway, config.refresh_seconds)
        file = config.jwks_file
        self._asking = _first("OpenID Connect trust certificate", config.trust_certs_file, lambda _: _asking(config))
        issuers = Issuers(config.issuers, self._asking.keys, rules, time.time, time.monotonic)
        if file is not None:
            found = _first("OpenID Connect keys", file, key_set)
            issuers.take(found)
            self.sources.append(Source("OpenID Connect keys", (file,), lambda: key_set(regular_file.read(file)), issuers.take, found))
        return issuers


def _asking(config: OidcConfig) -> IssuerClient:
    return IssuerClient(url=config.jwks_url, trust_certs=config.trust_certs_file)


def _first(name: str, path: Path | None, read: Callable[[bytes], _T]) -> _T:
    """Reads a file at the start.

    Raises:
        PolicyError: the file can't be used.
    """
    try:
        return read(b"" if path is None else regular_file.read(path))
    except (OSError, ValueError) as error:
        why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        raise PolicyError(Kind.UNAVAILABLE, Reason.AUTHORIZATION_UNKNOWN, f'The {name} file "{path}" can\'t be used: {why}.') from error
