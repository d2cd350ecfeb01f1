"""The options of the network: where the server listens, and with which certificates."""

from __future__ import annotations

from ..address import DEFAULT_LISTEN, parse_address
from ..option import Kind, Option, ReadBy

_SECTION = "Network"

OPTIONS = (
    Option(
        name="listen",
        kind=Kind.ADDRESS,
        help="Where to listen; port 0 lets the system choose.",
        section=_SECTION,
        default=parse_address(DEFAULT_LISTEN),
        metavar="HOST:PORT",
        url=True,
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="insecure_listen",
        kind=Kind.SWITCH,
        help="Let other machines connect without TLS.",
        section=_SECTION,
        default=False,
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="tls_certificate",
        kind=Kind.FILE,
        help="The server's certificate, PEM. With it the server uses TLS.",
        section=_SECTION,
        example='"server.pem"',
        metavar="FILE",
        read_by=ReadBy.SERVE,
        given_globally=True,
    ),
    Option(
        name="tls_key",
        kind=Kind.FILE,
        help="The certificate's private key, PEM.",
        section=_SECTION,
        example='"key.pem"',
        metavar="FILE",
        read_by=ReadBy.SERVE,
        given_globally=True,
    ),
    Option(
        name="tls_client_ca",
        kind=Kind.FILE,
        help="Admit only clients with a certificate of this authority, PEM.",
        section=_SECTION,
        example='"clients.pem"',
        metavar="FILE",
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="advertise",
        kind=Kind.TEXT,
        help="The address at which other sidecars of an exclusive log reach this one, to forward changes.",
        section=_SECTION,
        default="",
        default_text="the address of ``listen``",
        example='"sidecar-1:6680"',
        metavar="HOST:PORT",
        url=True,
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="peer_token_file",
        kind=Kind.FILE,
        help="A file with the token for the leader of an exclusive log, to which changes are forwarded; ``proxy_roles`` has its role.",
        section=_SECTION,
        default_text="none: the leader knows this sidecar by ``tls_certificate``",
        example='"/run/secrets/peer-token"',
        metavar="FILE",
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="peer_trust_certs",
        kind=Kind.FILE,
        help="The authorities of the certificates of other sidecars, PEM, for changes that are forwarded.",
        section=_SECTION,
        default_text="those of ``tls_client_ca``, else the system's",
        example='"sidecars.pem"',
        metavar="FILE",
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="reflection",
        kind=Kind.SWITCH,
        help="Let clients request the definitions of the services (gRPC server reflection).",
        section=_SECTION,
        default=True,
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="metrics_listen",
        kind=Kind.ADDRESS,
        help="Where to serve metrics (Prometheus) and probes, over HTTP without TLS: /metrics, /livez, /readyz.",
        section=_SECTION,
        default_text="nowhere",
        example='"127.0.0.1:9464"',
        metavar="HOST:PORT",
        url=True,
    ),
)
