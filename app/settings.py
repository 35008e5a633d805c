"""The server's settings: one frozen view of the flag table, checked for contradictions.

``from_command_line`` is the way from text; ``ServerSettings(…)`` with keywords is the way from Python. Defaults come
from the table in both.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..server.addresses import WILDCARDS
from .arguments import Arguments, BadOption, parse
from .control_key import control_key
from .flags import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_DEFAULTS = Arguments({})
_ALL = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """What a server is told. Fields are named as the flags; ports may be 0 (any free one).

    ``metrics_address`` is that of HTTP where none is given. ``backend_config`` maps a backend's name to its
    settings, ``""`` to those for every backend. ``control_key`` "" has a random one made. No flag sets
    ``control_socket`` (None: there is none) and ``name``, under which a running server is found. ``notices`` are
    sentences for the log: flags that are accepted and not acted on, and deprecated ones.
    """

    model_repository: tuple[Path, ...] = ()
    model_control_mode: str = _DEFAULTS.text("model-control-mode")
    load_model: tuple[str, ...] = ()
    model_config_name: str = _DEFAULTS.text("model-config-name")
    model_load_thread_count: int = _DEFAULTS.integer("model-load-thread-count")
    model_load_retry_count: int = _DEFAULTS.integer("model-load-retry-count")
    model_load_timeout: float = _DEFAULTS.number("model-load-timeout")
    auto_complete_config: bool = not _DEFAULTS.boolean("disable-auto-complete-config")
    exit_on_error: bool = _DEFAULTS.boolean("exit-on-error")
    skip_missing_backends: bool = _DEFAULTS.boolean("skip-missing-backends")
    strict_readiness: bool = _DEFAULTS.boolean("strict-readiness")
    id: str = _DEFAULTS.text("id")
    exit_timeout_secs: int = _DEFAULTS.integer("exit-timeout-secs")
    execute_timeout: float = _DEFAULTS.number("execute-timeout")
    allow_remote_control: bool = _DEFAULTS.boolean("allow-remote-control")
    control_key: str = field(default="", repr=False)
    control_socket: Path | None = None
    name: str = ""
    allow_http: bool = _DEFAULTS.boolean("allow-http")
    http_address: str = _DEFAULTS.text("http-address")
    http_port: int = _DEFAULTS.integer("http-port")
    reuse_http_port: bool = _DEFAULTS.boolean("reuse-http-port")
    http_max_input_size: int = _DEFAULTS.integer("http-max-input-size")
    http_max_header_size: int = _DEFAULTS.integer("http-max-header-size")
    http_header_timeout: float = _DEFAULTS.number("http-header-timeout")
    http_body_timeout: float = _DEFAULTS.number("http-body-timeout")
    http_write_timeout: float = _DEFAULTS.number("http-write-timeout")
    http_keepalive_timeout: float = _DEFAULTS.number("http-keepalive-timeout")
    allow_grpc: bool = _DEFAULTS.boolean("allow-grpc")
    grpc_address: str = _DEFAULTS.text("grpc-address")
    grpc_port: int = _DEFAULTS.integer("grpc-port")
    reuse_grpc_port: bool = _DEFAULTS.boolean("reuse-grpc-port")
    grpc_use_ssl: bool = _DEFAULTS.boolean("grpc-use-ssl")
    grpc_use_ssl_mutual: bool = _DEFAULTS.boolean("grpc-use-ssl-mutual")
    grpc_server_cert: str = _DEFAULTS.text("grpc-server-cert")
    grpc_server_key: str = _DEFAULTS.text("grpc-server-key")
    grpc_root_cert: str = _DEFAULTS.text("grpc-root-cert")
    grpc_infer_response_compression_level: str = _DEFAULTS.text("grpc-infer-response-compression-level")
    grpc_keepalive_time: int = _DEFAULTS.integer("grpc-keepalive-time")
    grpc_keepalive_timeout: int = _DEFAULTS.integer("grpc-keepalive-timeout")
    grpc_keepalive_permit_without_calls: bool = _DEFAULTS.boolean("grpc-keepalive-permit-without-calls")
    grpc_http2_max_pings_without_data: int = _DEFAULTS.integer("grpc-http2-max-pings-without-data")
    grpc_http2_min_recv_ping_interval_without_data: int = _DEFAULTS.integer(
        "grpc-http2-min-recv-ping-interval-without-data"
    )
    grpc_http2_max_ping_strikes: int = _DEFAULTS.integer("grpc-http2-max-ping-strikes")
    grpc_max_connection_age: int = _DEFAULTS.integer("grpc-max-connection-age")
    grpc_max_connection_age_grace: int = _DEFAULTS.integer("grpc-max-connection-age-grace")
    allow_metrics: bool = _DEFAULTS.boolean("allow-metrics")
    allow_gpu_metrics: bool = _DEFAULTS.boolean("allow-gpu-metrics")
    allow_cpu_metrics: bool = _DEFAULTS.boolean("allow-cpu-metrics")
    metrics_address: str = _DEFAULTS.text("metrics-address")
    metrics_port: int = _DEFAULTS.integer("metrics-port")
    metrics_interval_ms: int = _DEFAULTS.integer("metrics-interval-ms")
    log_verbose: int = _DEFAULTS.integer("log-verbose")
    log_info: bool = _DEFAULTS.boolean("log-info")
    log_warning: bool = _DEFAULTS.boolean("log-warning")
    log_error: bool = _DEFAULTS.boolean("log-error")
    log_format: str = _DEFAULTS.text("log-format")
    log_file: str = _DEFAULTS.text("log-file")
    log_file_max_size: int = _DEFAULTS.integer("log-file-max-size")
    log_file_count: int = _DEFAULTS.integer("log-file-count")
    backend_directory: Path = Path(_DEFAULTS.text("backend-directory"))
    backend_config: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, "Mapping[str, str]"])
    notices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.metrics_address:
            object.__setattr__(self, "metrics_address", self.http_address)


def from_command_line(args: Sequence[str]) -> ServerSettings:
    """The settings that a command line asks for. Raises BadOption."""
    return from_arguments(parse(args))


def from_arguments(given: Arguments) -> ServerSettings:
    """The settings that parsed arguments and INFER_CONTROL_KEY ask for.

    Raises BadOption where they contradict each other.
    """
    settings = ServerSettings(
        model_repository=tuple(Path(text) for text in given.texts("model-repository")),
        model_control_mode=given.text("model-control-mode"),
        load_model=given.texts("load-model"),
        model_config_name=given.text("model-config-name"),
        model_load_thread_count=given.integer("model-load-thread-count"),
        model_load_retry_count=given.integer("model-load-retry-count"),
        model_load_timeout=given.number("model-load-timeout"),
        auto_complete_config=_auto_complete(given),
        exit_on_error=given.boolean("exit-on-error"),
        skip_missing_backends=given.boolean("skip-missing-backends"),
        strict_readiness=given.boolean("strict-readiness"),
        id=given.text("id"),
        exit_timeout_secs=max(0, given.integer("exit-timeout-secs")),
        execute_timeout=given.number("execute-timeout"),
        allow_remote_control=given.boolean("allow-remote-control"),
        control_key=control_key(given.text("control-key-file"), os.environ),
        allow_http=given.boolean("allow-http"),
        http_address=given.text("http-address"),
        http_port=given.integer("http-port"),
        reuse_http_port=given.boolean("reuse-http-port"),
        http_max_input_size=given.integer("http-max-input-size"),
        http_max_header_size=given.integer("http-max-header-size"),
        http_header_timeout=given.number("http-header-timeout"),
        http_body_timeout=given.number("http-body-timeout"),
        http_write_timeout=given.number("http-write-timeout"),
        http_keepalive_timeout=given.number("http-keepalive-timeout"),
        allow_grpc=given.boolean("allow-grpc"),
        grpc_address=given.text("grpc-address"),
        grpc_port=given.integer("grpc-port"),
        reuse_grpc_port=given.boolean("reuse-grpc-port"),
        grpc_use_ssl=given.boolean("grpc-use-ssl"),
        grpc_use_ssl_mutual=given.boolean("grpc-use-ssl-mutual"),
        grpc_server_cert=given.text("grpc-server-cert"),
        grpc_server_key=given.text("grpc-server-key"),
        grpc_root_cert=given.text("grpc-root-cert"),
        grpc_infer_response_compression_level=given.text("grpc-infer-response-compression-level"),
        grpc_keepalive_time=given.integer("grpc-keepalive-time"),
        grpc_keepalive_timeout=given.integer("grpc-keepalive-timeout"),
        grpc_keepalive_permit_without_calls=given.boolean("grpc-keepalive-permit-without-calls"),
        grpc_http2_max_pings_without_data=given.integer("grpc-http2-max-pings-without-data"),
        grpc_http2_min_recv_ping_interval_without_data=given.integer("grpc-http2-min-recv-ping-interval-without-data"),
        grpc_http2_max_ping_strikes=given.integer("grpc-http2-max-ping-strikes"),
        grpc_max_connection_age=given.integer("grpc-max-connection-age"),
        grpc_max_connection_age_grace=given.integer("grpc-max-connection-age-grace"),
        allow_metrics=given.boolean("allow-metrics"),
        allow_gpu_metrics=given.boolean("allow-gpu-metrics"),
        allow_cpu_metrics=given.boolean("allow-cpu-metrics"),
        metrics_address=given.text("metrics-address"),
        metrics_port=given.integer("metrics-port"),
        metrics_interval_ms=given.integer("metrics-interval-ms"),
        log_verbose=given.integer("log-verbose"),
        log_info=given.boolean("log-info"),
        log_warning=given.boolean("log-warning"),
        log_error=given.boolean("log-error"),
        log_format=given.text("log-format"),
        log_file=given.text("log-file"),
        log_file_max_size=given.integer("log-file-max-size"),
        log_file_count=given.integer("log-file-count"),
        backend_directory=Path(given.text("backend-directory")),
        backend_config=_backend_config(given.texts("backend-config")),
        notices=_notices(given),
    )
    check(settings)
    return settings


def check(settings: ServerSettings) -> None:
    """Refuse settings that contradict each other. Raises BadOption."""
    if not settings.model_repository:
        msg = "There is no model repository. Name one: infer serve --model-repository DIR"
        raise BadOption(msg)
    if settings.load_model and settings.model_control_mode != "explicit":
        msg = (
            f'Bad option: "--load-model".\nIt wants --model-control-mode=explicit, '
            f"and the mode is {settings.model_control_mode}, in which the server chooses what to load."
        )
        raise BadOption(msg)
    if _ALL in settings.load_model and len(settings.load_model) > 1:
        others = ", ".join(name for name in settings.load_model if name != _ALL)
        msg = f"Bad option: \"--load-model\".\n'*' is every model, so it stands alone; remove it, or remove {others}."
        raise BadOption(msg)
    _check_ports(settings)
    _check_tls(settings)


def _check_ports(settings: ServerSettings) -> None:
    """Refuse two services on one address and port."""
    services = [
        ("The HTTP door", settings.allow_http, settings.http_address, settings.http_port, "--http-port"),
        ("the gRPC door", settings.allow_grpc, settings.grpc_address, settings.grpc_port, "--grpc-port"),
        ("the metrics port", settings.allow_metrics, settings.metrics_address, settings.metrics_port, "--metrics-port"),
    ]
    listening = [service for service in services if service[1] and service[3]]
    for first, second in itertools.combinations(listening, 2):
        addresses = {first[2], second[2]}
        if first[3] == second[3] and (len(addresses) == 1 or addresses & set(WILDCARDS)):
            msg = (
                f"{first[0]} and {second[0]} are both to listen on {first[2]}:{first[3]}. "
                f"Give one another port: {first[4]} or {second[4]}."
            )
            raise BadOption(msg[:1].upper() + msg[1:])


def _check_tls(settings: ServerSettings) -> None:
    """Refuse TLS without the files that it takes."""
    if not (settings.grpc_use_ssl or settings.grpc_use_ssl_mutual):
        return
    wanted = {"--grpc-server-cert": settings.grpc_server_cert, "--grpc-server-key": settings.grpc_server_key}
    if settings.grpc_use_ssl_mutual:
        wanted["--grpc-root-cert"] = settings.grpc_root_cert
    missing = [flag for flag, path in wanted.items() if not path]
    if missing:
        asked = "--grpc-use-ssl-mutual" if settings.grpc_use_ssl_mutual else "--grpc-use-ssl"
        msg = f'Bad option: "{asked}".\nIt wants PEM files; give {" and ".join(missing)}.'
        raise BadOption(msg)


def _auto_complete(given: Arguments) -> bool:
    if "disable-auto-complete-config" in given.given:
        return False
    return not given.boolean("strict-model-config")


def _backend_config(texts: Sequence[str]) -> dict[str, dict[str, str]]:
    """``BACKEND,KEY=VALUE`` and ``KEY=VALUE`` (for every backend, under ``""``), the last of a key winning."""
    configs: dict[str, dict[str, str]] = {}
    for text in texts:
        head, equals, value = text.partition("=")
        backend, comma, key = head.rpartition(",")
        if not equals or not key or (comma and not backend):
            msg = f'Bad option: "--backend-config".\nIt takes BACKEND,KEY=VALUE or KEY=VALUE, got {text!r}.'
            raise BadOption(msg)
        configs.setdefault(backend, {})[key] = value
    return configs


def _notices(given: Arguments) -> tuple[str, ...]:
    """What the log should say of the flags given: one sentence for the ignored, one for each deprecated."""
    notices: list[str] = []
    ignored = [f"--{name}" for name in given.given if not _is_acted_on(name, given)]
    if ignored:
        sentence = f"accepted, but not acted on yet: {', '.join(ignored)}"
        guards = [f"--{name}" for name in given.given if BY_NAME[name].guards and f"--{name}" in ignored]
        if guards:
            sentence += f". Nothing is protected by {', '.join(guards)}"
        notices.append(sentence)
    notices.extend(
        f"--{name} is deprecated. {BY_NAME[name].help}"
        for name in given.given
        if BY_NAME[name].group.value == "DEPRECATED"
    )
    return tuple(notices)


def _is_acted_on(name: str, given: Arguments) -> bool:
    """Whether what was asked for is what happens: switching off what is not there is no broken promise."""
    flag = BY_NAME[name]
    if name == "model-control-mode":
        return given.text(name) != "poll"
    return flag.acted or (isinstance(flag.default, bool) and not given.boolean(name))
