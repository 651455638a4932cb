"""What jaxlib is told, and what stands in the environment."""
import _ctypes  # noqa: F401
import os

from jaxlib import xla_client

print(*xla_client.generate_pjrt_gpu_plugin_options(),
      os.environ.get("XLA_PYTHON_CLIENT_ALLOCATOR"), os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE"))  # fmt: skip
