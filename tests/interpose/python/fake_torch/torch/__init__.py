"""A double of PyTorch on its cudaMallocAsync backend, as far as the adapter has to do with it."""
from . import _C


class OutOfMemoryError(RuntimeError):
    pass


from . import cuda  # noqa: E402,F401
