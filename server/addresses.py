"""Where a listening address is reached from this machine."""

from __future__ import annotations

from typing import Final

WILDCARDS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104  compared with, not bound
"""Addresses that mean every network interface, and the loopback address beside each."""


def host_and_port(address: tuple[str, int]) -> str:
    """``host:port`` that reaches a listening address from this machine."""
    host, port = address
    host = WILDCARDS.get(host, host)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
