"""GET /metrics: Prometheus text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..observe.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    import falcon

    from ..observe.metrics import ServerMetrics


class MetricsResource:
    """The metrics of this server."""

    def __init__(self, metrics: ServerMetrics) -> None:
        """``metrics`` is made once by the service."""
        self._metrics = metrics

    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Everything in the text exposition format."""
        resp.content_type = CONTENT_TYPE
        resp.text = self._metrics.text()
