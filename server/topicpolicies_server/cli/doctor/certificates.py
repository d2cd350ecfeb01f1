"""Checks whether clients trust the certificate that a server presents, and for how long."""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from topicpolicies import Tls
from topicpolicies.addresses import Place

from .checks import Check, Finding, failed, ok, skipped, warning
from .reaching import closed, opened

SOON_DAYS = 14
"""A certificate that expires within this many days is a warning."""
_DAY = 86_400.0
_TIMES = frozenset({9, 10})
"""OpenSSL's ``X509_V_ERR_CERT_NOT_YET_VALID`` and ``..._HAS_EXPIRED``."""
_NAMES = frozenset({62, 64})
"""``X509_V_ERR_HOSTNAME_MISMATCH`` and ``..._IP_ADDRESS_MISMATCH``."""


class ShownChain(NamedTuple):
    """The outcome of a TLS handshake."""

    certificate: Mapping[str, Any]
    """The certificate as ``ssl.SSLSocket.getpeercert`` returns it; empty: it is not trusted."""
    code: int = 0
    """OpenSSL's code of the reason why it is not trusted; 0: it is."""
    problem: str = ""


async def shown(place: Place, tls: Tls, *, named: bool) -> ShownChain:
    """Performs a TLS handshake with a server.

    Args:
        place: the server's address.
        tls: the authorities that are trusted, and the client's own certificate.
        named: whether the certificate must have the server's name.

    Raises:
        OSError: the connection or the handshake fails for another reason than the certificate, or a file can't be read.
    """
    context = ssl.create_default_context(cafile=tls.ca_file)
    context.check_hostname = named
    context.set_alpn_protocols(["h2"])
    if tls.certificate_file is not None:
        context.load_cert_chain(tls.certificate_file, tls.key_file)
    try:
        _, writer = await opened(place, context, tls.server_name)
    except ssl.SSLCertVerificationError as error:
        return ShownChain({}, error.verify_code, error.verify_message)
    try:
        return ShownChain(writer.get_extra_info("peercert") or {})
    finally:
        await closed(writer)


def judged_chain(found: ShownChain) -> Finding:
    """Judges whether the certificate comes from a trusted authority."""
    if found.code and found.code not in _TIMES | _NAMES:
        return failed(f"the certificate is not trusted: {found.problem}")
    return ok()


def judged_name(found: ShownChain, name: str) -> Finding:
    """Judges whether the certificate is for ``name``, by which the server is called."""
    if found.code in _NAMES:
        return failed(f"the certificate is not for {name}: {found.problem}")
    names = ", ".join(value for _, value in found.certificate.get("subjectAltName", ()))
    return ok(f"it is for {names}" if names else "")


def judged_times(found: ShownChain, now: float) -> Finding:
    """Judges whether the certificate is valid now, and for how long; ``now``: in seconds since 1970."""
    if found.code in _TIMES:
        return failed(f"the certificate is not valid now: {found.problem}")
    until = found.certificate.get("notAfter")
    if until is None:
        return skipped("its validity is not known: it is not trusted")
    days = (ssl.cert_time_to_seconds(until) - now) / _DAY
    if days < SOON_DAYS:
        return warning(f"it expires in {days:.1f} days, at {until}")
    return ok(f"it expires in {days:.0f} days")


def certificates(
    place: Place, tls: bool | Tls | None, *, used: bool, group: str = "tls", before: str | None = "address.grpc", named: bool = True
) -> Sequence[Check]:
    """Returns the checks of a server's certificate.

    Args:
        place: the server's address.
        tls: the authorities that are trusted, and the client's own certificate; not a ``Tls``: the defaults.
        used: whether TLS is used at all; else the checks are skipped.
        group: the group of the checks.
        before: the name of the check that these need; None: they need none.
        named: whether the certificate must have the server's name.
    """
    trusted = tls if isinstance(tls, Tls) else Tls()
    name = trusted.server_name or place.host

    async def chain() -> Finding:
        return judged_chain(await shown(place, trusted, named=False)) if used else skipped("TLS is not used")

    async def right_name() -> Finding:
        if used and not named:
            return skipped("names are not checked: --no-pulsar-tls-validate-hostname")
        return judged_name(await shown(place, trusted, named=True), name) if used else skipped("TLS is not used")

    async def times() -> Finding:
        return judged_times(await shown(place, trusted, named=False), time.time()) if used else skipped("TLS is not used")

    needs = () if before is None else (before,)
    return (
        Check(
            name=f"{group}.chain",
            holds="the certificate comes from a trusted authority",
            why="Clients refuse a certificate that they do not trust.",
            run=chain,
            remedy="Name the authority with --tls-ca FILE, or --pulsar-tls-trust-certs for a broker; and give the server the whole chain.",
            needs=needs,
        ),
        Check(
            name=f"{group}.name",
            holds="the certificate is for the server's name",
            why="A certificate for another name does not identify the server.",
            run=right_name,
            remedy="Call the server by a name in its certificate, give that name with --tls-server-name, or have one issued for this name.",
            needs=needs,
        ),
        Check(
            name=f"{group}.expiry",
            holds=f"the certificate is valid, now and for the next {SOON_DAYS} days",
            why="When it expires, every new connection fails.",
            run=times,
            remedy="Have a new certificate issued, and put it in place of the old one: the server reads it again. Check the clock too.",
            needs=needs,
        ),
    )
