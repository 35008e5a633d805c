"""Check ONNX Runtime and PyTorch on a GPU through this server, against their answers on the CPU, and measure them.

    python benchmarks/gpu/check.py [--seconds 3]

Needs an NVIDIA GPU, onnxruntime-gpu, a torch with CUDA, and onnx. For each backend it serves one perceptron on the CPU
and on the GPU with two instances, compares the answers, sends batches from two clients at a time, checks that inputs
were gathered in pinned memory (PyTorch), and prints how many batches a second came through the server in
relation to the bare runtime in a loop. Exit status: 0 all good, 1 a check failed, 2 there is no GPU to check.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

WIDTH = 2048
ROWS = 64
CLIENTS = 2
TOLERANCE = 1e-2
"""A GPU adds in another order, and in TF32."""


def missing() -> str:
    """Why nothing can be checked here, as a sentence, or ""."""
    try:
        import onnx  # noqa: F401, PLC0415  asked for before it is used
        import onnxruntime  # noqa: PLC0415  as above
        import torch  # noqa: PLC0415  as above
    except ImportError as exc:
        return f"{exc.name} is not installed; run pip install 'infer-server[gpu,torch]' onnx"
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} sees no GPU on this machine"
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        return "onnxruntime was built without CUDA; install onnxruntime-gpu in its place"
    return ""


def write_models(repository: Path) -> dict[str, Path]:
    """The perceptron as TorchScript and as ONNX, each for CPU and GPU; the files by backend."""
    import onnx  # noqa: PLC0415  missing() has looked
    import torch  # noqa: PLC0415  as above
    from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415  as above

    torch.manual_seed(7)
    module = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH)).eval()
    arrays = {name.replace(".", "_"): value.numpy() for name, value in module.state_dict().items()}
    nodes = [
        helper.make_node("Gemm", ["x", "0_weight", "0_bias"], ["sums"], transB=1),
        helper.make_node("Relu", ["sums"], ["hidden"]),
        helper.make_node("Gemm", ["hidden", "2_weight", "2_bias"], ["y"], transB=1),
    ]
    sides = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", WIDTH])] for name in "xy"]
    weights = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "g", *sides, weights)
    files: dict[str, Path] = {}
    for backend, name in (("onnxruntime", "model.onnx"), ("pytorch", "model.pt")):
        for kind, count in (("CPU", 1), ("GPU", CLIENTS)):
            version = repository / f"{backend}_{kind}" / "1"
            version.mkdir(parents=True)
            (version.parent / "config.pbtxt").write_text(
                f'backend: "{backend}"\nmax_batch_size: {ROWS}\n'
                f'input [{{ name: "x" data_type: TYPE_FP32 dims: [{WIDTH}] }}]\n'
                f'output [{{ name: "y" data_type: TYPE_FP32 dims: [{WIDTH}] }}]\n'
                f"instance_group [{{ kind: KIND_{kind} count: {count} }}]\n"
            )
            files[backend] = version / name
            if backend == "pytorch":
                script: Any = torch.jit.trace(module, torch.zeros(2, WIDTH))
                script.save(files[backend])
            else:
                opset = [helper.make_opsetid("", 17)]
                onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), files[backend])
    return files


def bare(backend: str, file: Path, batch: Any) -> Callable[[], Any]:  # noqa: ANN401  a numpy array
    """One batch on the GPU by the runtime alone, from host memory to host memory."""
    if backend == "pytorch":
        import torch  # noqa: PLC0415  missing() has looked

        module = torch.jit.load(file, map_location="cuda")
        pinned = torch.from_numpy(batch).pin_memory()

        def run() -> Any:  # noqa: ANN401  a tensor
            with torch.inference_mode():
                return module(pinned.to("cuda", non_blocking=True)).cpu()

        return run
    import onnxruntime  # noqa: PLC0415  missing() has looked

    session = onnxruntime.InferenceSession(str(file), providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    return lambda: session.run(None, {"x": batch})


def rate(run: Callable[[], Any], seconds: float) -> float:
    """Batches a second, from as many threads as the model has instances."""

    def work(until: float) -> int:
        done = 0
        while time.perf_counter() < until:
            run()
            done += 1
        return done

    with ThreadPoolExecutor(CLIENTS) as pool:
        for _ in range(10):
            run()
        counts = list(pool.map(work, [time.perf_counter() + seconds] * CLIENTS))
    return sum(counts) / seconds


def pinned_staging() -> bool:
    """Whether PyTorch's staging buffer gives memory that the driver has locked."""
    import torch  # noqa: PLC0415  missing() has looked

    from infer.backends.torch.staging import PinnedBuffer  # noqa: PLC0415  imports torch

    return torch.frombuffer(PinnedBuffer().take(1 << 20), dtype=torch.uint8).is_pinned()


def check(seconds: float) -> list[str]:
    """Run everything, print a line each; the checks that failed."""
    import infer  # noqa: PLC0415  after the look for a GPU

    failed: list[str] = []
    print(f"pinned staging: {pinned_staging()}")
    if not pinned_staging():
        failed.append("the staging buffer is not pinned")
    batch = np.random.default_rng(7).standard_normal((ROWS, WIDTH), dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        files = write_models(Path(folder))
        with infer.Server(model_repository=folder) as server:
            for backend, file in files.items():
                answers = {kind: server.infer(f"{backend}_{kind}", {"x": batch})["y"] for kind in ("CPU", "GPU")}
                worst = float(np.abs(answers["CPU"] - answers["GPU"]).max())
                served = rate(lambda name=f"{backend}_GPU": server.infer(name, {"x": batch}), seconds)
                alone = rate(bare(backend, file, batch), seconds)
                print(
                    f"{backend}: largest difference {worst:.2g}; {CLIENTS} instances {served:,.0f} batches/s, "
                    f"bare runtime {alone:,.0f}, ratio {served / alone:.2f}"
                )
                if worst > TOLERANCE:
                    failed.append(f"{backend} answers otherwise on the GPU than on the CPU")
    return failed


def main() -> int:
    """Check, or say why not."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="of load for each figure")
    options = parser.parse_args()
    reason = missing()
    if reason:
        print(f"nothing was checked: {reason}", file=sys.stderr)
        return 2
    failed = check(options.seconds)
    for sentence in failed:
        print(f"failed: {sentence}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
