"""What tests/gpu/frameworks/run runs: one row of its table a case."""

import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.abspath(__file__))
GPU = os.path.dirname(HERE)
# Multicast over NVLink is left alone: a fault in it takes the whole host's GPUs down.
NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}


@dataclass
class Case:
    name: str
    framework: str
    script: list = field(default_factory=list)  # relative to tests/gpu, with its arguments; else `program`
    program: tuple = ()  # source, cudart, compiler flags, libraries
    packages: tuple = ()
    environment: dict = field(default_factory=dict)  # of both runs
    gpus: int = 1
    launcher: str = ""  # torchrun or mpirun: one process a GPU
    timed: bool = False  # prints step_ms, and has the machine for itself

    def missing(self, devices):
        """Why the case cannot run here; None if it can."""
        if self.gpus > devices:
            return f"needs {self.gpus} GPUs, found {devices}"
        for package in self.packages:
            try:
                found = importlib.util.find_spec(package) is not None
            except ModuleNotFoundError:
                found = False
            if not found:
                return f"no Python package {package} here"
        if self.launcher == "mpirun" and shutil.which("mpirun") is None:
            return "no mpirun here"
        return None

    def command(self, built, directory):
        """`built` is the program's path; files that a run leaves go to `directory`."""
        if self.program:
            return [built]
        command = [sys.executable, os.path.join(GPU, self.script[0])]
        command += [word.replace("{directory}", directory) for word in self.script[1:]]
        if self.launcher == "torchrun":
            command[1:1] = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={self.gpus}"]
        elif self.launcher == "mpirun":
            # Open MPI's way to hand a variable on; children of the same host inherit the environment anyway.
            as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
            command[:0] = ["mpirun", *as_root, "-n", str(self.gpus)]
        return command


def _torch(name, *features, **more):
    return Case(name, "PyTorch", ["frameworks/torch_features.py", *features], packages=("torch",), **more)


def _ranks(mode, gpus, launcher="torchrun"):
    script = ["ddp.py", "--mode", mode, "--steps", "14", "--out", "{directory}/" + f"{mode}-{gpus}-{launcher}"]
    name = f"torch-{mode}-{gpus}" + ("-mpirun" if launcher == "mpirun" else "")
    more = {"gpus": gpus, "launcher": launcher, "timed": True}
    return Case(name, "PyTorch + NCCL", script, packages=("torch",), environment=NO_MULTICAST, **more)


def _registered(gpus):
    script, more = ["frameworks/nccl_register.py"], {"gpus": gpus, "launcher": "torchrun"}
    return Case(f"nccl-register-{gpus}", "NCCL", script, packages=("torch",), environment=NO_MULTICAST, **more)


def _cpp(name, source, cudart, flags=(), libraries=(), **more):
    program = (f"frameworks/programs/{source}", cudart, list(flags), list(libraries))
    return Case(f"c++-{name}", "C++", program=program, **more)


_PER_THREAD = ("--default-stream", "per-thread")
# Native JAX takes three quarters of the device at once, which would starve the cases beside it.
_JAX = {"XLA_PYTHON_CLIENT_MEM_FRACTION": ".2"}

CASES = [
    _torch("torch-eager", "eager", timed=True),
    _torch("torch-compile", "compiled", timed=True),
    _torch("torch"),
    _torch("torch-loader-workers", "loader_fork", "loader_spawn"),
    Case("torch-reduce-overhead", "PyTorch", ["frameworks/torch_reduce_overhead.py"], packages=("torch",)),
    Case("torch-graph-trees", "PyTorch", ["frameworks/torch_graph_trees.py"], packages=("torch",)),
    # Sends CUDA tensors to another process, which stalloc must find out by itself; then because it is told.
    Case("torch-queue", "PyTorch", ["frameworks/torch_queue.py"], packages=("torch",)),
    Case("torch-ipc", "PyTorch", ["frameworks/torch_queue.py"], packages=("torch",), environment={"STALLOC_IPC": "on"}),
    _torch("torch-two-gpus", "two_devices", "peer_copies", gpus=2),
    *(_ranks(mode, gpus) for gpus in (2, 4) for mode in ("ddp", "fsdp2", "pipeline")),
    _ranks("ddp", 2, "mpirun"),
    _registered(2),
    _registered(4),
    Case("jax", "JAX", ["frameworks/jax_train.py", "--plain"], packages=("jax",), environment=_JAX, timed=True),
    Case(
        "jax-flax-optax",
        "JAX, Flax, Optax",
        ["frameworks/jax_train.py", "--flax"],
        packages=("jax", "flax", "optax"),
        environment=_JAX,
        timed=True,
    ),
    Case("cupy", "CuPy", ["frameworks/cupy_check.py"], packages=("cupy",)),
    Case("numba", "Numba", ["frameworks/numba_check.py"], packages=("numba",)),
    Case("cuda-python", "cuda-python", ["frameworks/cuda_python_check.py"], packages=("cuda.bindings",)),
    Case("onnxruntime", "ONNX Runtime", ["frameworks/onnxruntime_check.py"], packages=("onnxruntime", "onnx")),
    _cpp("static-cudart", "runtime_train.cu", "static", timed=True),
    _cpp("shared-cudart", "runtime_train.cu", "shared", timed=True),
    _cpp("per-thread", "runtime_train.cu", "shared", _PER_THREAD, timed=True),
    _cpp("per-thread-static", "runtime_train.cu", "static", _PER_THREAD, timed=True),
    _cpp("libcuda", "driver_train.cpp", "none", libraries=["cuda"], timed=True),
    _cpp("graph", "graph.cu", "shared"),
    _cpp("peer", "peer.cu", "shared", gpus=2),
    _cpp("two-devices", "two_devices.cu", "shared", gpus=2),
    _cpp("two-devices-static", "two_devices.cu", "static", gpus=2),
    _cpp("copies-between", "copies_between.cu", "shared", gpus=2),
    _cpp("arrays-between", "arrays_between.cu", "shared", gpus=2),
    _cpp("ipc", "ipc.cu", "shared", environment={"STALLOC_IPC": "on"}),
    _cpp("ipc-unset", "ipc.cu", "shared", ["-DREFUSAL_IS_RIGHT"]),
]
