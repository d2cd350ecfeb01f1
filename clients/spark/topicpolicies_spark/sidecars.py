"""Connects to a sidecar, and finds the namespaces that the options select."""

from __future__ import annotations

from pathlib import Path

from topicpolicies import Client, Tls

from .brokers import Brokers
from .options import Options


def connected(options: Options) -> Client:
    """Returns a client of the sidecar; close it, or use it as a context manager."""
    return Client(options.address, tls=Tls(ca_file=Path(options.ca_file)) if options.ca_file else False)


def namespaces_of(options: Options) -> list[str]:
    """Returns the selected namespaces: those that the options name, or else those that the brokers list for the tenants.

    Raises:
        LogError: the brokers do not answer.
    """
    if options.namespaces:
        return sorted(name for name in options.namespaces if options.includes(name))
    with Brokers(options) as brokers:
        return brokers.namespaces()
