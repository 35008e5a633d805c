"""Runs one of their clients from where it lies, with this server's ports in place of Triton's; nothing is written.

::

    python peer_client.py CLIENT HTTP_PORT GRPC_PORT METRICS_PORT [ARGUMENT…]
"""

from __future__ import annotations

import sys
from pathlib import Path

from compat_plan import without_network

STANDARD_PORTS = (8000, 8001, 8002)


def main() -> None:
    """Run it as the main program, as `python CLIENT ARGUMENT…` would."""
    path, ports, arguments = Path(sys.argv[1]), [int(port) for port in sys.argv[2:5]], sys.argv[5:]
    source = without_network(path.read_text(), dict(zip(STANDARD_PORTS, ports, strict=True)))
    sys.argv = [str(path), *arguments]
    namespace = {"__name__": "__main__", "__file__": str(path)}
    exec(compile(source, str(path), "exec"), namespace)


if __name__ == "__main__":
    main()
