"""Finds files that other users of the machine may read, change or replace, and should not.

They are keys, tokens, certificates and the file of roles. Of what the server itself keeps only the place is judged: it takes the access of
others to these files away when it opens them (``sqlite_file``).

Other users are those who are neither a file's owner nor of its group: that a group may read a secret which is mounted for it is usual. A
file below a directory that other users can't search is out of their reach, whatever its own mode is. Where a path leads through links,
whoever can replace one of them can replace the file.
"""

from __future__ import annotations

import stat
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .logs import EmbeddedLogConfig, LogConfig, PulsarLogConfig
from .server import GuardConfig, ServerConfig

_MOST_LINKS = 40
"""How many links a path may lead through, as in Linux."""


class _File(NamedTuple):
    option: str
    path: Path | None
    secret: bool = False
    """Whether those who read it can impersonate others."""
    kept: bool = False
    """Whether the server writes it, for itself only."""


def exposed(config: ServerConfig | GuardConfig) -> list[str]:
    """Returns a sentence for each file and each access, reading or writing, that other users should not have."""
    found = []
    for option, path, secret, kept in (*_of_server(config), *_of_log(config.log)):
        if path is None:
            continue
        mode, replaceable = _open_to_others(path)
        if secret and mode & stat.S_IROTH:
            found.append(f'{option}: every user of this machine may read "{path}", and impersonate others with it.')
        if replaceable or (mode & stat.S_IWOTH and not kept):
            found.append(f'{option}: every user of this machine may write "{path}", or put another file in its place.')
    return found


def _of_server(config: ServerConfig | GuardConfig) -> Iterator[_File]:
    if not isinstance(config, ServerConfig):
        return
    token, oidc, tls = config.authentication.token, config.authentication.oidc, config.tls
    if token is not None:
        yield _File("token_secret_key", token.secret_key_file, secret=True)
        yield _File("token_public_key", token.public_key_file)
    if oidc is not None:
        yield _File("oidc_jwks_file", oidc.jwks_file)
        yield _File("oidc_trust_certs", oidc.trust_certs_file)
    if tls is not None:
        yield _File("tls_certificate", tls.certificate_file)
        yield _File("tls_key", tls.key_file, secret=True)
        yield _File("tls_client_ca", tls.client_ca_file)
    yield _File("peer_token_file", config.peer_token_file, secret=True)
    yield _File("peer_trust_certs", config.peer_trust_certs_file)
    yield _File("authorization", config.authorization.file)
    yield _File("history", config.history.path if config.history is not None else None, kept=True)
    yield _File("checkpoints", config.checkpoints.path if config.checkpoints is not None else None, kept=True)


def _of_log(log: LogConfig) -> Iterator[_File]:
    if isinstance(log, EmbeddedLogConfig):
        yield _File("data", log.path, kept=True)
        return
    assert isinstance(log, PulsarLogConfig), "there is no other one"
    yield _File("pulsar_token_file", log.token_file, secret=True)
    yield _File("pulsar_oauth2_credentials", log.oauth2.credentials_file if log.oauth2 is not None else None, secret=True)
    yield _File("pulsar_tls_trust_certs", log.tls_trust_certs_file)
    yield _File("pulsar_tls_certificate", log.tls_certificate_file)
    yield _File("pulsar_tls_key", log.tls_key_file, secret=True)


def _open_to_others(path: Path) -> tuple[int, bool]:
    """Returns what other users may do with a file, as bits of its mode, and whether they may put another one in its place."""
    try:
        folders = _folders(path)
        mode = path.stat().st_mode
        reached = all(each.stat().st_mode & stat.S_IXOTH for each in path.resolve().parents)
        replaced = any(_others_may_replace(each) for each in folders)
    except (OSError, RuntimeError, ValueError):
        return 0, False  # the check of the option that names it reports what is wrong
    if stat.S_ISDIR(mode):  # of the checkpoints: whoever may write there may replace them
        return 0, replaced or _others_may_replace(path.resolve())
    if not stat.S_ISREG(mode):
        return 0, False
    return mode & stat.S_IRWXO if reached else 0, replaced


def _folders(path: Path) -> list[Path]:
    """Returns the directories in which the parts of a path are looked up, and those of the links that it leads through.

    Raises:
        OSError: there are too many links, or one can't be read.
    """
    folder, left, links, found = Path(path.absolute().anchor), deque(path.absolute().parts[1:]), 0, dict[Path, None]()
    while left:
        name = left.popleft()
        if name == "..":
            folder = folder.parent
            continue
        found[folder] = None
        place = folder / name
        if not place.is_symlink():
            folder = place
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError("too many links")
        target = place.readlink()
        if target.is_absolute():
            folder = Path(target.anchor)
        left.extendleft(reversed(target.parts[1:] if target.is_absolute() else target.parts))
    return list(found)


def _others_may_replace(folder: Path) -> bool:
    """Whether other users may replace what is in a directory, whose path has no links."""
    mode = folder.stat().st_mode
    return bool(mode & stat.S_IWOTH and not mode & stat.S_ISVTX) and all(
        each.stat().st_mode & stat.S_IXOTH for each in (folder, *folder.parents)
    )
