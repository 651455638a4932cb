"""Imports that the adapter has to do with, where there is no such module or it is broken; and what is seen of a loader."""
import _ctypes  # noqa: F401
import importlib.util
import json

for name in ("torch.cuda.memory", "jaxlib.xla_client", "torch"):
    try:
        print(name, importlib.util.find_spec(name))
    except ModuleNotFoundError as error:
        print(name, error)
try:
    import torch.cuda.memory  # noqa: F401
except ImportError as error:
    print(error)
print(type(json.__spec__.loader).__name__, json.__loader__ is json.__spec__.loader)
