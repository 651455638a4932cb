"""Triton and Inductor: kernels are neither compiled nor run; what is allocated around them is.

A call of a @triton.jit function does nothing. Autotuning takes the first configuration, and allocates the buffer by
which the real one clears the device's cache. Inductor's wrapper code, with its buffers, runs as it is generated.
"""

import functools
import os
import tempfile

from stalloc_simulated import report


def prepare_environment():
    """Compiled code of the simulated device stays apart from that of a real one."""
    folder = os.path.join(tempfile.gettempdir(), f"stalloc_simulated_{os.getuid()}")
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(folder, "inductor"))
    os.environ.setdefault("TRITON_CACHE_DIR", os.path.join(folder, "triton"))
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")


class _Kernel:
    """What a launch returns, and what Inductor holds as a kernel."""

    n_regs, n_spills, shared, num_warps, num_stages, num_ctas = 32, 0, 0, 4, 2, 1

    def __init__(self, name="kernel"):
        self.name = self.__name__ = name

    def run(self, *args, **kwargs):
        return None

    __call__ = run

    def __getitem__(self, grid):
        return self.run

    def precompile(self, *args, **kwargs):
        return None


def after_jit(module):
    """triton.runtime.jit"""

    def run(self, *args, **kwargs):
        report.note_unsimulated("Triton kernels")
        return _Kernel(getattr(self, "__name__", "kernel"))

    module.JITFunction.run = run
    module.JITFunction.warmup = run
    module.JITFunction.preload = run


def after_autotuner(module):
    """triton.runtime.autotuner"""
    buffers = []

    def _bench(self, *args, config, **meta):
        if not buffers:
            import torch

            buffers.append(torch.cuda.is_available())
            torch.empty(64 << 20, dtype=torch.int32, device="cuda")  # the 256 MiB that clear the device's cache
        return [1.0, 1.0, 1.0]

    module.Autotuner._bench = _bench


def after_driver(module):
    """triton.backends.nvidia.driver: what it asks a compiled helper for, asked of torch."""

    class Utilities:
        def get_device_properties(self, device):
            import torch

            properties = torch.cuda.get_device_properties(device)
            return {
                "max_shared_mem": getattr(properties, "shared_memory_per_block_optin", 232448),
                "max_num_regs": getattr(properties, "regs_per_multiprocessor", 65536),
                "multiprocessor_count": properties.multi_processor_count,
                "warpSize": getattr(properties, "warp_size", 32),
                "sm_clock_rate": 1980000,
                "mem_clock_rate": 2619000,
                "mem_bus_width": 6144,
            }

        def load_binary(self, *args):
            return None, None, 32, 0, 1024

        def __getattr__(self, name):
            return lambda *args, **kwargs: None

    module.CudaUtils = Utilities


def after_async_compile(module):
    """torch._inductor.async_compile"""

    def triton(self, kernel_name, source_code, device_str="cuda"):
        report.note_unsimulated("Inductor's Triton kernels")
        return _Kernel(kernel_name)

    def multi_kernel(self, *args, **kwargs):
        return _Kernel(str(args[0]) if args else "multi_kernel")

    module.AsyncCompile.triton = triton
    module.AsyncCompile.multi_kernel = multi_kernel


def after_benchmarking(module):
    """torch._inductor.runtime.benchmarking: a choice between templates takes the first."""

    def constant(self, *args, **kwargs):
        return 1.0

    for name in ("Benchmarker", "TritonBenchmarker", "InductorBenchmarker"):
        benchmarker = getattr(module, name, None)
        for method in ("benchmark", "benchmark_gpu"):
            if benchmarker is not None and hasattr(benchmarker, method):
                setattr(benchmarker, method, functools.wraps(getattr(benchmarker, method))(constant))


HOOKS = {
    "triton.runtime.jit": after_jit,
    "triton.runtime.autotuner": after_autotuner,
    "triton.backends.nvidia.driver": after_driver,
    "torch._inductor.async_compile": after_async_compile,
    "torch._inductor.runtime.benchmarking": after_benchmarking,
}
