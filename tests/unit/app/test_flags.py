"""The table of flags is whole and sound."""

from __future__ import annotations

from infer.app.arguments import read_value
from infer.app.flags import FLAGS, Group, Kind

TRITON = set(
    """
help id exit-timeout-secs log-verbose log-info log-warning log-error log-format log-file model-repository model-store
exit-on-error disable-auto-complete-config strict-readiness model-control-mode repository-poll-secs load-model
model-config-name model-load-thread-count model-load-retry-count model-namespacing enable-peer-access allow-http
http-address http-port reuse-http-port http-header-forward-pattern http-thread-count http-max-input-size
http-restricted-api allow-grpc grpc-address grpc-port reuse-grpc-port grpc-header-forward-pattern
grpc-infer-thread-count grpc-infer-allocation-pool-size grpc-max-response-pool-size grpc-use-ssl grpc-use-ssl-mutual
grpc-server-cert grpc-server-key grpc-root-cert grpc-infer-response-compression-level grpc-keepalive-time
grpc-keepalive-timeout grpc-keepalive-permit-without-calls grpc-http2-max-pings-without-data
grpc-http2-min-recv-ping-interval-without-data grpc-http2-max-ping-strikes grpc-max-connection-age
grpc-max-connection-age-grace grpc-restricted-protocol allow-sagemaker sagemaker-port sagemaker-safe-port-range
sagemaker-thread-count allow-vertex-ai vertex-ai-port vertex-ai-thread-count vertex-ai-default-model allow-metrics
allow-gpu-metrics allow-cpu-metrics metrics-address metrics-port metrics-interval-ms metrics-config trace-config
backend-directory backend-config repoagent-directory cache-config cache-directory rate-limit rate-limit-resource
pinned-memory-pool-byte-size cuda-memory-pool-byte-size cuda-virtual-address-size min-supported-compute-capability
buffer-manager-thread-count host-policy model-load-gpu-limit allow-client-shm strict-model-config
response-cache-byte-size trace-file trace-level trace-rate trace-count trace-log-frequency
""".split()  # noqa: SIM905  a list literal of eighty names is no easier to read
)


def test_every_flag_of_triton_is_there_and_the_others_are_marked_as_ours() -> None:
    assert {flag.name for flag in FLAGS if not flag.ours} == TRITON


def test_no_name_is_there_twice() -> None:
    names = [flag.name for flag in FLAGS]
    assert len(names) == len(set(names))


def test_every_default_is_a_value_that_its_flag_would_take() -> None:
    for flag in FLAGS:
        if flag.kind is not Kind.SWITCH and flag.default != "":
            assert read_value(flag, str(flag.default)) == flag.default


def test_every_group_has_flags_and_every_flag_a_sentence() -> None:
    assert {flag.group for flag in FLAGS} == set(Group)
    assert all(flag.help.endswith(".") for flag in FLAGS)
