"""The shell offers the names of servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infer.app.cli.servers import server_names

if TYPE_CHECKING:
    from infer.app.registry import Registry


def test_the_shell_offers_the_servers_that_run(run: Any, registry: Registry) -> None:
    run("blue")
    run("default")
    assert server_names(None, [], "") == ["default", "blue"]
    assert server_names(None, [], "b") == ["blue"]
    registry.folder.chmod(0o777)
    assert server_names(None, [], "") == []
