"""Client certificates: the role that one names. TLS has verified the certificate before; here it is only read.

By the rule ``cn`` it is the subject's common name, as brokers take it (``AuthenticationProviderTls``), of several the most specific, which
is the last; by ``dns``, ``uri`` and ``email`` the only alternative name of that kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from cryptography import x509
from cryptography.x509.oid import NameOID

from .caller import Caller, Way, expired, invalid
from .tokens import NOT_A_ROLE, is_role

_MOST_KNOWN = 1_024
"""How many certificates' roles are remembered."""


class Certificates:
    """Reads client certificates by one rule. The results are remembered, as a connection makes many calls."""

    def __init__(self, rule: str) -> None:
        """``rule``: one of ``CERTIFICATE_ROLES`` of the configuration."""
        self._role = _ROLES[rule]
        self._known = lru_cache(_MOST_KNOWN)(self._read)

    def caller(self, pem: bytes, now: float) -> Caller:
        """Returns the caller that a certificate names. ``now``: the time, in seconds since 1970.

        Raises:
            PolicyError: UNAUTHENTICATED: the certificate names no role, or has expired since.
        """
        found = self._known(pem)
        if now >= found.expires_at:
            raise expired("client certificate")
        return found

    def _read(self, pem: bytes) -> Caller:
        try:
            certificate = x509.load_pem_x509_certificate(pem)
            roles = self._role(certificate)
        except (ValueError, x509.InvalidVersion, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
            raise invalid("The client certificate can't be read.") from error
        if len(roles) != 1:
            raise invalid(f"The client certificate has {len(roles) or 'no'} names of the kind that this server takes for the role.")
        if not is_role(roles[0]):
            raise invalid(f"The role in the client certificate {NOT_A_ROLE}.")
        return Caller(roles[0], Way.CERTIFICATE, expires_at=certificate.not_valid_after_utc.timestamp())


def _common_names(certificate: x509.Certificate) -> list[str]:
    return [str(each.value) for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)][-1:]


def _alternatives(kind: type[x509.DNSName | x509.UniformResourceIdentifier | x509.RFC822Name]) -> Callable[[x509.Certificate], list[str]]:
    def found(certificate: x509.Certificate) -> list[str]:
        try:
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return []
        return [str(each) for each in names.get_values_for_type(kind)]

    return found


_ROLES: Mapping[str, Callable[[x509.Certificate], list[str]]] = {
    "cn": _common_names,
    "dns": _alternatives(x509.DNSName),
    "uri": _alternatives(x509.UniformResourceIdentifier),
    "email": _alternatives(x509.RFC822Name),
}
