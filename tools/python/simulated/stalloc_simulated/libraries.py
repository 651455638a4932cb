"""Loads the stand-ins for NVIDIA's libraries, so that torch's own loading finds them instead of the real ones.

The dynamic linker takes a library that is already loaded under the wanted soname. It happens here and not by LD_PRELOAD,
so that it costs nothing in processes that never import torch.
"""

import os

# A library before those that need it.
_NAMES = ("cublasLt", "cublas", "cudnn", "cufft", "cusparse", "cusolver", "cusparseLt", "nccl")


def folder():
    """The folder of the simulated device's libraries: where the preloaded libcuda.so.1 lies. None if there is none."""
    for path in os.environ.get("LD_PRELOAD", "").replace(":", " ").split():
        if os.path.basename(path) == "libcuda.so.1":
            return os.path.dirname(path)
    return None


def _version_of(*packages):
    """Of the first of `packages` that is installed, or else that torch was built with."""
    import importlib.metadata

    for package in packages:
        try:
            return [int(part) for part in importlib.metadata.version(package).split(".")[:3]]
        except (importlib.metadata.PackageNotFoundError, ValueError):
            continue
    try:
        required = importlib.metadata.requires("torch") or ()
    except importlib.metadata.PackageNotFoundError:
        return None
    for requirement in required:
        name, _, version = requirement.partition(";")[0].strip().partition("==")
        if name.strip() in packages and version:
            try:
                return [int(part) for part in version.split(".")[:3]]
            except ValueError:
                return None
    return None


def load():
    """Returns the names that were loaded. Raises OSError where a stand-in cannot be loaded."""
    import ctypes

    here = folder()
    if here is None:
        return []
    # PyTorch compares these with the versions that it was built with.
    if cudnn := _version_of("nvidia-cudnn-cu13", "nvidia-cudnn-cu12"):
        os.environ.setdefault("SIMCUDA_CUDNN_VERSION", str(cudnn[0] * 10000 + cudnn[1] * 100 + cudnn[2]))
    if nccl := _version_of("nvidia-nccl-cu13", "nvidia-nccl-cu12"):
        os.environ.setdefault("SIMCUDA_NCCL_VERSION", str(nccl[0] * 10000 + nccl[1] * 100 + nccl[2]))
    loaded = []
    for name in _NAMES:
        for file in sorted(os.listdir(here)):
            if file.startswith(f"lib{name}.so."):
                ctypes.CDLL(os.path.join(here, file), mode=os.RTLD_LOCAL | os.RTLD_NOW)
                loaded.append(file)
    return loaded
