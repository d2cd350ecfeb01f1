"""Finds files that other users of the machine may read or change, and should not: keys, tokens, certificates and the file of roles.

Other users are those who are neither a file's owner nor of its group: that a group may read a secret which is mounted for it is usual. A
file below a directory that other users can't search is out of their reach, whatever its own mode is.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .logs import EmbeddedLogConfig, LogConfig, PulsarLogConfig
from .server import GuardConfig, ServerConfig


class _File(NamedTuple):
    option: str
    path: Path | None
    secret: bool


def exposed(config: ServerConfig | GuardConfig) -> list[str]:
    """Returns a sentence for each file and each access, reading or writing, that other users should not have."""
    found = []
    for option, path, secret in (*_of_callers(config), *_of_log(config.log)):
        if path is None:
            continue
        readable, writable = _open_to_others(path)
        if secret and readable:
            found.append(f'{option}: every user of this machine may read "{path}", and impersonate others with it.')
        if writable:
            found.append(f'{option}: every user of this machine may write "{path}", or put another file in its place.')
    return found


def _of_callers(config: ServerConfig | GuardConfig) -> Iterator[_File]:
    if not isinstance(config, ServerConfig):
        return
    token, oidc, tls = config.authentication.token, config.authentication.oidc, config.tls
    if token is not None:
        yield _File("token_secret_key", token.secret_key_file, secret=True)
        yield _File("token_public_key", token.public_key_file, secret=False)
    if oidc is not None:
        yield _File("oidc_jwks_file", oidc.jwks_file, secret=False)
        yield _File("oidc_trust_certs", oidc.trust_certs_file, secret=False)
    if tls is not None:
        yield _File("tls_certificate", tls.certificate_file, secret=False)
        yield _File("tls_key", tls.key_file, secret=True)
        yield _File("tls_client_ca", tls.client_ca_file, secret=False)
    yield _File("authorization", config.authorization.file, secret=False)


def _of_log(log: LogConfig) -> Iterator[_File]:
    if isinstance(log, EmbeddedLogConfig):
        return
    assert isinstance(log, PulsarLogConfig), "there is no other one"
    yield _File("pulsar_token_file", log.token_file, secret=True)
    yield _File("pulsar_oauth2_credentials", log.oauth2.credentials_file if log.oauth2 is not None else None, secret=True)
    yield _File("pulsar_tls_trust_certs", log.tls_trust_certs_file, secret=False)
    yield _File("pulsar_tls_certificate", log.tls_certificate_file, secret=False)
    yield _File("pulsar_tls_key", log.tls_key_file, secret=True)


def _open_to_others(path: Path) -> tuple[bool, bool]:
    """Whether other users may read a file, and whether they may change it or put another one in its place."""
    try:
        place = path.resolve()
        mode, folders = place.stat().st_mode, [each.stat().st_mode for each in place.parents]
    except (OSError, RuntimeError, ValueError):
        return False, False  # the check of the option that names it reports what is wrong
    if not stat.S_ISREG(mode):
        return False, False
    reached = all(each & stat.S_IXOTH for each in folders)
    replaced = any(
        each & stat.S_IWOTH and not each & stat.S_ISVTX and all(above & stat.S_IXOTH for above in folders[index:])
        for index, each in enumerate(folders)
    )
    return bool(reached and mode & stat.S_IROTH), bool((reached and mode & stat.S_IWOTH) or replaced)
