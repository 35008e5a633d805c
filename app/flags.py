"""The one table of command line flags of ``infer serve``: all of Triton's, and the few that are ours.

Names, types and defaults are those of Triton (so that existing scripts and charts run unchanged); ``acted`` tells
whether this version does what the flag says. A flag that is not acted on is accepted and named in one warning.
The parser (``arguments``), the usage text and the settings are views of this table.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

Value = bool | int | float | str
"""What a flag's text becomes."""


class Kind(enum.Enum):
    """How a flag's text is read; ``value`` is how the usage text names it."""

    BOOL = "boolean"
    INT = "integer"
    FLOAT = "float"
    TEXT = "string"
    VERBOSITY = "integer or boolean"
    SWITCH = ""
    """Takes no value."""


class Group(enum.Enum):
    """The headings of the usage text, in its order."""

    SERVER = "Server"
    LOGGING = "Logging"
    REPOSITORY = "Model Repository"
    HTTP = "HTTP"
    GRPC = "GRPC"
    SAGEMAKER = "Sagemaker"
    VERTEX = "Vertex"
    METRICS = "Metrics"
    TRACING = "Tracing"
    BACKEND = "Backend"
    AGENT = "Repository Agent"
    CACHE = "Response Cache"
    RATE = "Rate Limiter"
    MEMORY = "Memory/Device Management"
    SHARED_MEMORY = "Shared Memory"
    DEPRECATED = "DEPRECATED"


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag, named without its leading dashes.

    ``minimum`` and ``maximum`` bound a number, ``choices`` a text (``fold`` where upper and lower case are one).
    ``guards`` marks a flag that protects something, so that ignoring it deserves a sentence of its own. ``ours``
    marks what Triton does not have; ``alias`` names the flag that this is another name of.
    """

    name: str
    kind: Kind
    default: Value
    group: Group
    help: str
    acted: bool = False
    repeatable: bool = False
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    fold: bool = False
    not_empty: bool = False
    guards: bool = False
    ours: bool = False
    alias: str = ""


_INT_MAX = 2**31 - 1

# The rows are read across, so the formatter leaves them alone.
# fmt: off
FLAGS: tuple[Flag, ...] = (
    # Server
    Flag("help", Kind.SWITCH, False, Group.SERVER, "Print this text.", acted=True),
    Flag("id", Kind.TEXT, "triton", Group.SERVER, "The server's name in its metadata.", acted=True),
    Flag("exit-timeout-secs", Kind.INT, 30, Group.SERVER,
         "Seconds that requests under way get to finish at shutdown; a negative number is 0.", acted=True),
    Flag("execute-timeout", Kind.FLOAT, 0.0, Group.SERVER,
         "Seconds after which an execution that has not come back makes its model not ready; 0 is no limit.",
         acted=True, minimum=0, ours=True),
    Flag("control-key-file", Kind.TEXT, "", Group.SERVER,
         "File with the key that lets a client load and unload at the metrics port; INFER_CONTROL_KEY where not given, "
         "else a random one.", acted=True, not_empty=True, ours=True),
    Flag("allow-remote-control", Kind.BOOL, True, Group.SERVER,
         "Let clients load and unload over HTTP and gRPC, in mode 'explicit'.", acted=True, ours=True),
    # Logging
    Flag("log-verbose", Kind.VERBOSITY, 0, Group.LOGGING,
         "0 or false: no verbose messages; N: those up to level N; true: level 1.", acted=True, minimum=0),
    Flag("log-info", Kind.BOOL, True, Group.LOGGING, "Write INFO lines.", acted=True),
    Flag("log-warning", Kind.BOOL, True, Group.LOGGING, "Write WARNING lines.", acted=True),
    Flag("log-error", Kind.BOOL, True, Group.LOGGING, "Write ERROR lines.", acted=True),
    Flag("log-format", Kind.TEXT, "default", Group.LOGGING,
         "Line format: 'default', 'ISO8601', or 'json' (one object a line; ours).",
         acted=True, choices=("default", "ISO8601", "json")),
    Flag("log-file", Kind.TEXT, "", Group.LOGGING, "Append the log to this file, not the console.", acted=True),
    Flag("log-file-max-size", Kind.INT, 0, Group.LOGGING,
         "Bytes after which the log file is put aside as FILE.1 and begun anew; 0 is never.",
         acted=True, minimum=0, ours=True),
    Flag("log-file-count", Kind.INT, 3, Group.LOGGING,
         "Full log files that are kept beside the log file.", acted=True, minimum=0, ours=True),
    # Model Repository
    Flag("model-repository", Kind.TEXT, "", Group.REPOSITORY,
         "A folder of models. Several may be given.", acted=True, repeatable=True, not_empty=True),
    Flag("model-store", Kind.TEXT, "", Group.REPOSITORY,
         "Another name of --model-repository.", acted=True, repeatable=True, not_empty=True, alias="model-repository"),
    Flag("exit-on-error", Kind.BOOL, True, Group.REPOSITORY,
         "End with status 1 where a model fails to load at start; false serves the others.", acted=True),
    Flag("skip-missing-backends", Kind.BOOL, False, Group.REPOSITORY,
         "At start, pass over a model whose framework is not installed: a line says how to install it, and the server "
         "is ready without it.", acted=True, ours=True),
    Flag("disable-auto-complete-config", Kind.SWITCH, False, Group.REPOSITORY,
         "Take configurations as they are written; fill nothing in from the model.", acted=True),
    Flag("strict-readiness", Kind.BOOL, True, Group.REPOSITORY,
         "The server is ready only where every model is.", acted=True),
    Flag("model-control-mode", Kind.TEXT, "none", Group.REPOSITORY,
         "'none' loads all models at start, 'explicit' those of --load-model, 'poll' follows the folders.",
         acted=True, choices=("none", "poll", "explicit"), fold=True),
    Flag("repository-poll-secs", Kind.INT, 15, Group.REPOSITORY, "Seconds between two looks in mode 'poll'."),
    Flag("load-model", Kind.TEXT, "", Group.REPOSITORY,
         "A model to load at start in mode 'explicit'; '*' alone is all of them. Several may be given.",
         acted=True, repeatable=True, not_empty=True),
    Flag("model-config-name", Kind.TEXT, "", Group.REPOSITORY,
         "Read configs/NAME.pbtxt of a model in place of its config.pbtxt.", acted=True, not_empty=True),
    Flag("model-load-thread-count", Kind.INT, 4, Group.REPOSITORY,
         "Models that are read in at the same time.", acted=True, minimum=1),
    Flag("model-load-retry-count", Kind.INT, 0, Group.REPOSITORY,
         "Further tries for a version that fails to load.", acted=True, minimum=0),
    Flag("model-load-timeout", Kind.FLOAT, 0.0, Group.REPOSITORY,
         "Seconds that each step of a load in a worker process may take: making its environment, auto_complete_config, "
         "bringing up an instance. The reason names the phase that hung; 0 is no limit.",
         acted=True, minimum=0, ours=True),
    Flag("model-namespacing", Kind.BOOL, False, Group.REPOSITORY, "Allow one model name in several repositories."),
    Flag("enable-peer-access", Kind.BOOL, True, Group.REPOSITORY, "Let GPUs read each other's memory."),
    # HTTP
    Flag("allow-http", Kind.BOOL, True, Group.HTTP, "Serve HTTP.", acted=True),
    Flag("http-address", Kind.TEXT, "0.0.0.0", Group.HTTP,  # noqa: S104  Triton's default
         "Address to listen on.", acted=True),
    Flag("http-port", Kind.INT, 8000, Group.HTTP, "Port to listen on.", acted=True, minimum=0, maximum=65535),
    Flag("reuse-http-port", Kind.BOOL, False, Group.HTTP,
         "Let several servers listen on the port (SO_REUSEPORT).", acted=True),
    Flag("http-header-forward-pattern", Kind.TEXT, "", Group.HTTP,
         "Pattern of header names that become request parameters."),
    Flag("http-thread-count", Kind.INT, 8, Group.HTTP, "Threads of the HTTP door (ours is one event loop).", minimum=1),
    Flag("http-max-input-size", Kind.INT, 67108864, Group.HTTP,
         "Largest request body in bytes.", acted=True, minimum=1),
    Flag("http-max-header-size", Kind.INT, 65536, Group.HTTP,
         "Largest request head in bytes.", acted=True, minimum=1, ours=True),
    Flag("http-header-timeout", Kind.FLOAT, 60.0, Group.HTTP,
         "Seconds for a request's head to arrive.", acted=True, minimum=0.001, ours=True),
    Flag("http-body-timeout", Kind.FLOAT, 60.0, Group.HTTP,
         "Seconds that a request's body may make no progress.", acted=True, minimum=0.001, ours=True),
    Flag("http-write-timeout", Kind.FLOAT, 60.0, Group.HTTP,
         "Seconds that a client may leave an answer unread.", acted=True, minimum=0.001, ours=True),
    Flag("http-keepalive-timeout", Kind.FLOAT, 300.0, Group.HTTP,
         "Seconds that an idle connection is kept.", acted=True, minimum=0.001, ours=True),
    Flag("http-restricted-api", Kind.TEXT, "", Group.HTTP,
         "API,API...:KEY=VALUE; these APIs want the header KEY: VALUE. Several may be given.",
         repeatable=True, guards=True),
    # GRPC
    Flag("allow-grpc", Kind.BOOL, True, Group.GRPC, "Serve gRPC.", acted=True),
    Flag("grpc-address", Kind.TEXT, "0.0.0.0", Group.GRPC,  # noqa: S104  Triton's default
         "Address to listen on.", acted=True),
    Flag("grpc-port", Kind.INT, 8001, Group.GRPC, "Port to listen on.", acted=True, minimum=0, maximum=65535),
    Flag("reuse-grpc-port", Kind.BOOL, False, Group.GRPC,
         "Let several servers listen on the port (SO_REUSEPORT).", acted=True),
    Flag("grpc-header-forward-pattern", Kind.TEXT, "", Group.GRPC,
         "Pattern of metadata keys that become request parameters."),
    Flag("grpc-infer-thread-count", Kind.INT, 2, Group.GRPC, "Handler threads.", minimum=2, maximum=128),
    Flag("grpc-infer-allocation-pool-size", Kind.INT, 8, Group.GRPC, "Idle request states that are kept.", minimum=0),
    Flag("grpc-max-response-pool-size", Kind.INT, _INT_MAX, Group.GRPC,
         "Response objects that are kept for a stream.", minimum=1),
    Flag("grpc-use-ssl", Kind.BOOL, False, Group.GRPC, "Serve TLS.", acted=True, guards=True),
    Flag("grpc-use-ssl-mutual", Kind.BOOL, False, Group.GRPC,
         "Serve TLS and ask clients for a certificate.", acted=True, guards=True),
    Flag("grpc-server-cert", Kind.TEXT, "", Group.GRPC,
         "PEM file of the server's certificate.", acted=True, guards=True),
    Flag("grpc-server-key", Kind.TEXT, "", Group.GRPC, "PEM file of the server's key.", acted=True, guards=True),
    Flag("grpc-root-cert", Kind.TEXT, "", Group.GRPC,
         "PEM file of the authority for clients.", acted=True, guards=True),
    Flag("grpc-infer-response-compression-level", Kind.TEXT, "none", Group.GRPC,
         "Compression of responses.", acted=True, choices=("none", "low", "medium", "high"), fold=True),
    Flag("grpc-keepalive-time", Kind.INT, 7200000, Group.GRPC,
         "Milliseconds between keepalive pings.", acted=True),
    Flag("grpc-keepalive-timeout", Kind.INT, 20000, Group.GRPC,
         "Milliseconds to wait for a ping's answer.", acted=True),
    Flag("grpc-keepalive-permit-without-calls", Kind.BOOL, False, Group.GRPC,
         "Send pings also where no call is under way.", acted=True),
    Flag("grpc-http2-max-pings-without-data", Kind.INT, 2, Group.GRPC,
         "Pings without data; 0 is any number.", acted=True),
    Flag("grpc-http2-min-recv-ping-interval-without-data", Kind.INT, 300000, Group.GRPC,
         "Least milliseconds between a client's pings.", acted=True),
    Flag("grpc-http2-max-ping-strikes", Kind.INT, 2, Group.GRPC,
         "Bad pings that are tolerated; 0 is any number.", acted=True),
    Flag("grpc-max-connection-age", Kind.INT, 0, Group.GRPC,
         "Milliseconds that a connection may live; 0 is unset.", acted=True, minimum=0),
    Flag("grpc-max-connection-age-grace", Kind.INT, 0, Group.GRPC,
         "Milliseconds of grace after that; 0 is unset.", acted=True, minimum=0),
    Flag("grpc-restricted-protocol", Kind.TEXT, "", Group.GRPC,
         "As --http-restricted-api, with the metadata key triton-grpc-protocol-KEY.", repeatable=True, guards=True),
    # Sagemaker
    Flag("allow-sagemaker", Kind.BOOL, False, Group.SAGEMAKER, "Serve SageMaker's routes."),
    Flag("sagemaker-port", Kind.INT, 8080, Group.SAGEMAKER, "Port to listen on.", minimum=0, maximum=65535),
    Flag("sagemaker-safe-port-range", Kind.TEXT, "", Group.SAGEMAKER, "LO-HI, the range other ports must lie in."),
    Flag("sagemaker-thread-count", Kind.INT, 8, Group.SAGEMAKER, "Threads.", minimum=1),
    # Vertex
    Flag("allow-vertex-ai", Kind.BOOL, False, Group.VERTEX, "Serve Vertex AI's routes."),
    Flag("vertex-ai-port", Kind.INT, 8080, Group.VERTEX, "Port to listen on.", minimum=0, maximum=65535),
    Flag("vertex-ai-thread-count", Kind.INT, 8, Group.VERTEX, "Threads.", minimum=1),
    Flag("vertex-ai-default-model", Kind.TEXT, "", Group.VERTEX, "Model for predictions that name none."),
    # Metrics
    Flag("allow-metrics", Kind.BOOL, True, Group.METRICS,
         "Serve the metrics port: /metrics and the operator's door.", acted=True),
    Flag("allow-gpu-metrics", Kind.BOOL, True, Group.METRICS, "Measure GPUs.", acted=True),
    Flag("allow-cpu-metrics", Kind.BOOL, True, Group.METRICS, "Measure CPU and memory.", acted=True),
    Flag("metrics-address", Kind.TEXT, "", Group.METRICS,
         "Address to listen on; that of --http-address where not given.", acted=True),
    Flag("metrics-port", Kind.INT, 8002, Group.METRICS, "Port to listen on.", acted=True, minimum=0, maximum=65535),
    Flag("metrics-interval-ms", Kind.INT, 2000, Group.METRICS,
         "Milliseconds between two readings of CPU and GPUs.", acted=True, minimum=1),
    Flag("metrics-config", Kind.TEXT, "", Group.METRICS,
         "SETTING=VALUE for the metrics. Several may be given.", repeatable=True),
    # Tracing
    Flag("trace-config", Kind.TEXT, "", Group.TRACING,
         "SETTING=VALUE or MODE,SETTING=VALUE for traces. Several may be given.", repeatable=True),
    # Backend
    Flag("backend-directory", Kind.TEXT, "/opt/tritonserver/backends", Group.BACKEND,
         "Folder of Python-based backends: NAME/model.py serves the models whose backend is NAME. Ours come with the "
         "package.", acted=True),
    Flag("backend-config", Kind.TEXT, "", Group.BACKEND,
         "BACKEND,KEY=VALUE, or KEY=VALUE for every backend. Several may be given.", acted=True, repeatable=True),
    # Repository Agent
    Flag("repoagent-directory", Kind.TEXT, "/opt/tritonserver/repoagents", Group.AGENT,
         "Where Triton finds repository agents."),
    # Response Cache
    Flag("cache-config", Kind.TEXT, "", Group.CACHE,
         "CACHE,KEY=VALUE for the response cache. Several may be given.", repeatable=True),
    Flag("cache-directory", Kind.TEXT, "/opt/tritonserver/caches", Group.CACHE, "Where Triton finds cache libraries."),
    # Rate Limiter
    Flag("rate-limit", Kind.TEXT, "off", Group.RATE,
         "Share resources between models: 'off' or 'execution_count'.", choices=("off", "execution_count"), fold=True),
    Flag("rate-limit-resource", Kind.TEXT, "", Group.RATE,
         "NAME:COUNT or NAME:COUNT:DEVICE. Several may be given.", repeatable=True),
    # Memory/Device Management
    Flag("pinned-memory-pool-byte-size", Kind.INT, 268435456, Group.MEMORY,
         "Bytes of pinned host memory for copies to GPUs.", minimum=0),
    Flag("cuda-memory-pool-byte-size", Kind.TEXT, "", Group.MEMORY,
         "GPU:BYTES of memory for tensors on that GPU. Several may be given.", repeatable=True),
    Flag("cuda-virtual-address-size", Kind.TEXT, "", Group.MEMORY,
         "GPU:BYTES reserved for state that grows. Several may be given.", repeatable=True),
    Flag("min-supported-compute-capability", Kind.FLOAT, 0.0, Group.MEMORY, "Ignore GPUs below this capability."),
    Flag("buffer-manager-thread-count", Kind.INT, 0, Group.MEMORY, "Threads for copies.", minimum=0),
    Flag("host-policy", Kind.TEXT, "", Group.MEMORY,
         "POLICY,SETTING=VALUE: the cores and memory of instances. Several may be given.", repeatable=True),
    Flag("model-load-gpu-limit", Kind.TEXT, "", Group.MEMORY,
         "DEVICE:FRACTION of GPU memory above which loads are refused. Several may be given.",
         repeatable=True, guards=True),
    # Shared Memory
    Flag("allow-client-shm", Kind.BOOL, False, Group.SHARED_MEMORY, "Let clients register shared memory."),
    # DEPRECATED
    Flag("strict-model-config", Kind.BOOL, False, Group.DEPRECATED, "Use --disable-auto-complete-config.", acted=True),
    Flag("response-cache-byte-size", Kind.INT, 0, Group.DEPRECATED, "Use --cache-config local,size=BYTES.", minimum=0),
    Flag("trace-file", Kind.TEXT, "", Group.DEPRECATED, "Use --trace-config triton,file=FILE."),
    Flag("trace-level", Kind.TEXT, "OFF", Group.DEPRECATED, "Use --trace-config level=LEVEL.", repeatable=True),
    Flag("trace-rate", Kind.INT, 1000, Group.DEPRECATED, "Use --trace-config rate=N."),
    Flag("trace-count", Kind.INT, -1, Group.DEPRECATED, "Use --trace-config count=N."),
    Flag("trace-log-frequency", Kind.INT, 0, Group.DEPRECATED, "Use --trace-config triton,log-frequency=N."),
)
# fmt: on

BY_NAME: dict[str, Flag] = {flag.name: flag for flag in FLAGS}
