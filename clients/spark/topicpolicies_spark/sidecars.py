"""How a sidecar is reached, and which of its namespaces are asked for."""

from __future__ import annotations

from pathlib import Path

from topicpolicies import Client, Tls

from .brokers import Brokers
from .options import Options


def connected(options: Options) -> Client:
    """A client of the sidecar; close it, or use it as a context."""
    return Client(options.address, tls=Tls(ca_file=Path(options.ca_file)) if options.ca_file else False)


def namespaces_of(options: Options) -> list[str]:
    """The namespaces that are asked for: those that are named, else, as brokers know them, those of the tenants.

    Raises:
        LogError: the brokers do not answer.
    """
    if options.namespaces:
        return sorted(name for name in options.namespaces if options.includes(name))
    with Brokers(options) as brokers:
        return brokers.namespaces()
