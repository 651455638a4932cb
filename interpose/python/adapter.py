"""What libstalloc does inside a Python interpreter: frameworks' modules are completed once they have been imported.

Run once, in the main interpreter, when the first extension module is loaded (python_adapter.cpp), as the module
_stalloc. Imports nothing that a starting interpreter has not got. Whatever fails here fails silently or with one line:
the program goes on as without.
"""
import os
import sys

_lib = None


def library():
    """libstalloc's functions for Python, called with the global lock held."""
    global _lib
    if _lib is None:
        import ctypes

        _lib = ctypes.PyDLL(None)
        _lib.stalloc_python_source.restype = ctypes.c_char_p
        _lib.stalloc_history_text.restype = ctypes.c_void_p
        _lib.stalloc_pool_make.restype = ctypes.c_void_p
        for name in ("stalloc_pool_enter", "stalloc_pool_end"):
            getattr(_lib, name).argtypes = [ctypes.c_void_p]
        _lib.stalloc_owns.argtypes = [ctypes.c_uint64]
        _lib.stalloc_pool_make.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        _lib.stalloc_free_text.argtypes = [ctypes.c_void_p]
        _lib.stalloc_history_start.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_size_t]
        _lib.stalloc_figures.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
    return _lib


_said = set()


def say(text, warn=True):
    """One line, once a process."""
    if text not in _said:
        _said.add(text)
        library().stalloc_say(1 if warn else 0, text.encode())


def replace(owner, name, make):
    """owner.name becomes make(owner.name). Says so where this version has no such thing."""
    old = getattr(owner, name, None)
    if old is None:
        say(f"{getattr(owner, '__name__', owner)} has no {name}: left alone", warn=False)
        return
    new = make(old)
    try:
        new.__name__, new.__doc__ = name, old.__doc__
    except AttributeError:
        pass
    setattr(owner, name, new)


def _load(part):
    """A part of the adapter, as the module _stalloc_<part>."""
    import types

    module = types.ModuleType("_stalloc_" + part)
    module.__dict__.update(library=library, say=say, replace=replace)
    exec(compile(library().stalloc_python_source(part.encode()), f"<stalloc {part}>", "exec"), module.__dict__)
    sys.modules[module.__name__] = module
    return module


def _lacks(torch):
    """Has it the backend that lacks what is completed here? A PyTorch without CUDA has none."""
    backend = getattr(torch._C, "_cuda_getAllocatorBackend", None)
    return backend is not None and backend() == "cudaMallocAsync"


def _torch_asks():
    """Before torch.cuda.memory takes what it needs of torch._C."""
    import torch

    if _lacks(torch):
        for part in ("torch_memory", "torch_pools"):
            _load(part).install(torch)


def _after_torch(part, function):
    def run(module):
        import torch

        if _lacks(torch):
            loaded = sys.modules.get("_stalloc_" + part) or _load(part)
            getattr(loaded, function)(module)

    return run


def _jax(module):
    """JAX asks for its allocator in Python; children are to find the user's environment."""
    missing = {"XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}

    def told(function):
        def answered(*args, **kwargs):
            added = [name for name in missing if name not in os.environ]
            os.environ.update((name, missing[name]) for name in added)
            try:
                return function(*args, **kwargs)
            finally:
                for name in added:
                    os.environ.pop(name, None)

        return answered

    if library().stalloc_frameworks():
        for name in ("generate_pjrt_gpu_plugin_options", "make_gpu_client"):
            if hasattr(module, name):
                replace(module, name, told)


# By the name of a module: what is done before it runs, and after.
_BEFORE = {"torch.cuda.memory": _torch_asks}
_AFTER = {
    "torch.multiprocessing.reductions": _after_torch("torch_sharing", "install"),
    "torch.cuda.graphs": _after_torch("torch_pools", "complete_graphs"),
    "torch._inductor.cudagraph_trees": _after_torch("torch_pools", "complete_graph_trees"),
    "torch.distributed.distributed_c10d": _after_torch("torch_pools", "complete_nccl"),
    "jaxlib.xla_client": _jax,
}


def _attempt(function, *args):
    try:
        function(*args)
    except Exception as error:
        try:
            say(f"the adapter for Python left something alone: {type(error).__name__}: {error}", warn=False)
        except Exception:
            pass


class _Finder:
    """Finds nothing itself: has the module's own loader do a little more."""

    def __init__(self):
        self.looking = set()

    def find_spec(self, name, path=None, target=None):
        if name not in _BEFORE and name not in _AFTER or name in self.looking:
            return None
        self.looking.add(name)
        try:
            for finder in list(sys.meta_path):
                spec = None if finder is self or not hasattr(finder, "find_spec") else finder.find_spec(name, path, target)
                if spec is not None:
                    _attempt(self.extend, name, spec.loader)
                    return spec
        finally:
            self.looking.discard(name)
        return None

    def extend(self, name, loader):
        run = loader.exec_module

        def exec_module(module):
            loader.__dict__.pop("exec_module", None)
            _attempt(_BEFORE.get(name, lambda: None))
            run(module)
            _attempt(_AFTER.get(name, lambda module: None), module)

        loader.exec_module = exec_module


sys.meta_path.insert(0, _Finder())
