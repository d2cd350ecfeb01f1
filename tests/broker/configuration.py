"""The configuration of a standalone broker: its ``standalone.conf``, its command line, its logging."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.broker import compacting
from tests.broker.credentials import Authority, TokenKey
from tests.ports import free_port

SUPERUSER = "admin"
"""The superuser role of brokers that require tokens."""

_LOOPBACK = "127.0.0.1"

_OPENED = (
    "java.base/sun.net",
    "java.base/java.lang",
    "java.base/java.io",
    "java.base/java.nio",
    "java.base/java.util.zip",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)

_LOGGING = """<Configuration status="WARN">
  <Appenders>
    <Console name="out" target="SYSTEM_OUT"><PatternLayout pattern="%d{ISO8601} %-5p [%t] %c{1} - %m%n"/></Console>
  </Appenders>
  <Loggers>
    <!-- Says twice per bookie and call that the loopback address has no rack. -->
    <Logger name="org.apache.bookkeeper.client.TopologyAwareEnsemblePlacementPolicy" level="ERROR"/>
    <Logger name="org.apache.pulsar.compaction" level="{compaction}"/>
    <Root level="WARN"><AppenderRef ref="out"/></Root>
  </Loggers>
</Configuration>
"""


def logging() -> str:
    """Returns the text of ``log4j2.xml``: warnings are logged, and compactions if they are counted."""
    return _LOGGING.replace("{compaction}", "INFO" if compacting.forced() else "WARN")


@dataclass(frozen=True)
class Ports:
    """The ports of a broker. They stay the same over restarts: the bookie's port is part of its identity."""

    service: int = field(default_factory=free_port)
    web: int = field(default_factory=free_port)
    service_tls: int = field(default_factory=free_port)
    web_tls: int = field(default_factory=free_port)
    bookie: int = field(default_factory=free_port)


@dataclass(frozen=True)
class Security:
    """How a broker is secured: by tokens, TLS, or both; the plain ports stay open too."""

    tokens: TokenKey | None = None
    authority: Authority | None = None


def standalone_conf(home: Path, ports: Ports, security: Security, extra: Mapping[str, str]) -> str:
    """Returns the text of ``standalone.conf``: one bookie, no load balancer, no transactions, topic policies; ``extra`` overrides it."""
    lines = {
        "clusterName": "standalone",
        "brokerServicePort": str(ports.service),
        "webServicePort": str(ports.web),
        "bindAddress": _LOOPBACK,
        "advertisedAddress": _LOOPBACK,
        "managedLedgerDefaultEnsembleSize": "1",
        "managedLedgerDefaultWriteQuorum": "1",
        "managedLedgerDefaultAckQuorum": "1",
        "allowLoopback": "true",
        "systemTopicEnabled": "true",
        "topicLevelPoliciesEnabled": "true",
        "numIOThreads": "2",
        "numHttpServerThreads": "16",
        "transactionCoordinatorEnabled": "false",
        "loadBalancerEnabled": "false",
        "brokerShutdownTimeoutMs": "5000",
        "brokerDeleteInactiveTopicsEnabled": "false",  # otherwise brokers delete topics without clients, as most of tests
        "allowEphemeralPorts": "true",  # otherwise the bookie ignores its configured port (BKCluster)
        "diskUsageThreshold": "0.99",  # otherwise the bookie refuses writes once 95 % of the disk are used, whatever is left
        "diskUsageWarnThreshold": "0.99",
    }
    if security.tokens is not None:
        secret = home / "token.secret"
        secret.write_bytes(security.tokens.secret)
        lines |= {
            "authenticationEnabled": "true",
            "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
            "tokenSecretKey": secret.as_uri(),
            "authorizationEnabled": "true",
            "superUserRoles": SUPERUSER,
            "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
            "brokerClientAuthenticationParameters": f"token:{security.tokens.token(SUPERUSER)}",
        }
    if security.authority is not None:
        server = security.authority.issue("broker")
        lines |= {
            "brokerServicePortTls": str(ports.service_tls),
            "webServicePortTls": str(ports.web_tls),
            "tlsCertificateFilePath": str(server.certificate),
            "tlsKeyFilePath": str(server.key),
            "tlsTrustCertsFilePath": str(security.authority.trust),
            "brokerClientTrustCertsFilePath": str(security.authority.trust),
        }
    return "".join(f"{name}={value}\n" for name, value in (lines | dict(extra) | dict(compacting.settings())).items())


def command(java: Path, java_options: Sequence[str], class_path: str, home: Path, ports: Ports, *, heap_mb: int, wipe: bool) -> list[str]:
    """Returns the command line of the broker. Its memory is bounded: the heap, and half as much outside of it."""
    return [
        str(java),
        *java_options,
        f"-Xms{heap_mb // 4}m",
        f"-Xmx{heap_mb}m",
        f"-XX:MaxDirectMemorySize={heap_mb // 2}m",
        "-XX:+ExitOnOutOfMemoryError",
        f"-Djava.io.tmpdir={home / 'tmp'}",
        f"-Dlog4j.configurationFile={home / 'log4j2.xml'}",
        "-Djava.net.preferIPv4Stack=true",
        "-Dio.netty.tryReflectionSetAccessible=true",
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
        "--class-path",
        class_path,
        "org.apache.pulsar.PulsarStandaloneStarter",
        f"--config={home / 'standalone.conf'}",
        "--no-functions-worker",
        "--no-stream-storage",
        "--num-bookies=1",
        f"--bookkeeper-port={ports.bookie}",
        *(["--wipe-data"] if wipe else []),
    ]
