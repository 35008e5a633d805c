"""The composition root: the only place where the parts of a server are made and put together."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

from .. import __version__
from ..backends.api.errors import InvalidArgument
from ..server.engine import Engine, EngineSettings
from ..server.lifecycle.loader import LoaderSettings
from ..server.loop import ServingLoop
from ..server.observe.gpu import usable_indices
from .helpers import helper_command

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..backends.api.errors import InferError
    from ..server.grpc.service import GrpcService
    from ..server.http.service import HttpService
    from ..server.observe.log_ring import LogRing
    from ..server.operator.overview import Addresses
    from ..server.operator.service import OperatorService
    from .settings import ServerSettings

DELAY_SCHEDULER = "TRITONSERVER_DELAY_SCHEDULER"
BACKLOG_DELAY_SCHEDULER = "TRITONSERVER_BACKLOG_DELAY_SCHEDULER"


class RunningServer:
    """A server's parts and their life. Methods may be called from any thread but the serving loop.

    Started in the order loop, doors, models, so that a taken port is found at once and health answers while models
    load; stopped in reverse.
    """

    def __init__(self, settings: ServerSettings, *, doors: bool = True, log: LogRing | None = None) -> None:
        self.settings = settings
        self.control_key = settings.control_key or secrets.token_urlsafe(32)
        engine_settings = _engine_settings(settings)
        self.serving_loop = ServingLoop()
        self._stopped = False
        self.engine = Engine(engine_settings, self.serving_loop.loop)
        self.http: HttpService | None = None
        self.grpc: GrpcService | None = None
        self.operator: OperatorService | None = None
        if doors and settings.allow_http:
            self.http = _http_service(settings, self.engine)
        if doors and settings.allow_grpc:
            self.grpc = _grpc_service(settings, self.engine)
        if doors and settings.allow_metrics:
            self.operator = self._operator_service(log)

    def start(self, opened: Callable[[], None] = lambda: None) -> dict[str, InferError]:
        """Start everything and load the start-up models; the models that failed, by name.

        ``opened`` is called between the two: the doors answer, and the models are not loaded yet.

        Raises InferError where a port is taken or a repository is none; everything is stopped again then.
        """
        try:
            self.serving_loop.start()
            if self.http is not None:
                self.serving_loop.run(self.http.start())
            if self.grpc is not None:
                self.serving_loop.run(self.grpc.start())
            if self.operator is not None:
                self.operator.start()
            opened()
            return self.serving_loop.run(self.engine.start())
        except BaseException:
            self.stop()
            raise

    def drain(self, timeout_s: float) -> int:
        """Take nothing more in and wait for the rest; the number of requests that did not make it in time."""
        if self.http is not None:
            self.serving_loop.run(self.http.stop_accepting())
        if self.grpc is not None:
            self.serving_loop.run(self.grpc.stop_accepting())
        return self.serving_loop.run(self.engine.drain(timeout_s))

    def stop(self) -> None:
        """Stop everything, in reverse order. Idempotent, and right for one that was never started."""
        if self._stopped:
            return
        self._stopped = True
        if self.serving_loop.runs:
            self._stop_parts()
        self.serving_loop.stop()

    def _stop_parts(self) -> None:
        self.serving_loop.run(self.engine.stop())
        if self.operator is not None:
            self.operator.stop()
        if self.grpc is not None:
            self.serving_loop.run(self.grpc.stop())
        if self.http is not None:
            self.serving_loop.run(self.http.stop())

    @property
    def http_address(self) -> tuple[str, int] | None:
        """Where the HTTP door listens, or None without one."""
        return self.http.address if self.http is not None else None

    @property
    def grpc_address(self) -> tuple[str, int] | None:
        """Where the gRPC door listens, or None without one."""
        return self.grpc.address if self.grpc is not None else None

    @property
    def operator_address(self) -> tuple[str, int] | None:
        """Where the operator's door listens, or None without one."""
        return self.operator.address if self.operator is not None else None

    def _operator_service(self, log: LogRing | None) -> OperatorService:
        from ..server.operator.service import OperatorService, OperatorSettings  # noqa: PLC0415  as below

        settings = self.settings
        return OperatorService(
            self.engine,
            OperatorSettings(
                host=settings.metrics_address,
                port=settings.metrics_port,
                host_metrics=settings.allow_cpu_metrics,
                gpu_metrics=settings.allow_gpu_metrics,
                metrics_interval_s=settings.metrics_interval_ms / 1000,
                max_body_bytes=settings.http_max_input_size,
                control_socket=settings.control_socket,
                control_key=self.control_key,
                name=settings.name,
                log_file=settings.log_file,
            ),
            ring=log,
            doors=self._addresses,
        )

    def _addresses(self) -> Addresses:
        from ..server.operator.overview import Addresses  # noqa: PLC0415  as below

        return Addresses(http=self.http_address, grpc=self.grpc_address)


def build(settings: ServerSettings, log: LogRing | None = None) -> RunningServer:
    """A server with its doors, not started yet. ``log`` keeps the newest log records for the operator's door."""
    return RunningServer(settings, log=log)


def _engine_settings(settings: ServerSettings) -> EngineSettings:
    return EngineSettings(
        loader=LoaderSettings(
            repositories=settings.model_repository,
            auto_complete=settings.auto_complete_config,
            config_name=settings.model_config_name,
            execute_timeout_s=settings.execute_timeout,
            gpus=usable_indices(),
            skip_missing_backends=settings.skip_missing_backends,
            parallel=settings.model_load_thread_count,
            delay_scheduler=_hold(DELAY_SCHEDULER),
            backlog_delay_scheduler=_hold(BACKLOG_DELAY_SCHEDULER),
            retries=settings.model_load_retry_count,
        ),
        server_id=settings.id,
        version=__version__,
        control_mode=settings.model_control_mode,
        startup_models=settings.load_model,
        strict_readiness=settings.strict_readiness,
        backend_options=settings.backend_config,
        worker_command=helper_command("_zygote"),
        remote_control=settings.allow_remote_control,
        backend_directory=settings.backend_directory,
        load_timeout_s=settings.model_load_timeout,
    )


def _hold(variable: str) -> int:
    """How many requests a batcher waits for before its first batch: Triton's variables for tests of queues."""
    text = os.environ.get(variable, "0")
    if not text.isdecimal():
        msg = f"{variable}={text} is not a number of requests"
        raise InvalidArgument(msg)
    return int(text)


def _http_service(settings: ServerSettings, engine: Engine) -> HttpService:
    from ..server.http.service import HttpService, HttpSettings  # noqa: PLC0415  a server without doors needs no HTTP

    return HttpService(
        engine,
        HttpSettings(
            host=settings.http_address,
            port=settings.http_port,
            max_input_size=settings.http_max_input_size,
            reuse_port=settings.reuse_http_port,
            max_header_size=settings.http_max_header_size,
            header_timeout_s=settings.http_header_timeout,
            body_timeout_s=settings.http_body_timeout,
            write_timeout_s=settings.http_write_timeout,
            keep_alive_timeout_s=settings.http_keepalive_timeout,
            codec_command=helper_command("_codec"),
        ),
    )


def _grpc_service(settings: ServerSettings, engine: Engine) -> GrpcService:
    from ..server.grpc.options import GrpcSettings, TlsSettings  # noqa: PLC0415  as above
    from ..server.grpc.service import GrpcService  # noqa: PLC0415  as above

    tls: TlsSettings | None = None
    if settings.grpc_use_ssl or settings.grpc_use_ssl_mutual:
        tls = TlsSettings(
            certificate=settings.grpc_server_cert,
            key=settings.grpc_server_key,
            root=settings.grpc_root_cert,
            mutual=settings.grpc_use_ssl_mutual,
        )
    return GrpcService(
        engine,
        GrpcSettings(
            host=settings.grpc_address,
            port=settings.grpc_port,
            reuse_port=settings.reuse_grpc_port,
            compression=settings.grpc_infer_response_compression_level,
            tls=tls,
            keepalive_time_ms=settings.grpc_keepalive_time,
            keepalive_timeout_ms=settings.grpc_keepalive_timeout,
            keepalive_without_calls=settings.grpc_keepalive_permit_without_calls,
            max_pings_without_data=settings.grpc_http2_max_pings_without_data,
            min_ping_interval_ms=settings.grpc_http2_min_recv_ping_interval_without_data,
            max_ping_strikes=settings.grpc_http2_max_ping_strikes,
            max_connection_age_ms=settings.grpc_max_connection_age,
            max_connection_age_grace_ms=settings.grpc_max_connection_age_grace,
        ),
    )
