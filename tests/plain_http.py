"""HTTP without TLS, for clients of servers on the loopback interface."""

from __future__ import annotations

import ssl

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts nobody. Without it, httpx loads all authorities that the machine trusts for each client: up to 60 ms of processor time."""
