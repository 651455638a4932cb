"""As jaxlib asks for its allocator."""
import os


def generate_pjrt_gpu_plugin_options():
    return [os.getenv(name) for name in ("XLA_PYTHON_CLIENT_ALLOCATOR", "XLA_PYTHON_CLIENT_PREALLOCATE")]
