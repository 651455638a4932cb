"""Memory pools of the program's own, CUDA graphs' pools and allocator settings on PyTorch's cudaMallocAsync backend.

A pool that brings its own allocator gets its requests from libstalloc, which asks that allocator. One that does not is
served as everything else. What needs the pools of PyTorch's own allocator runs without them, with one line.
"""
import itertools
import re

_NATIVE = "PYTORCH_ALLOC_CONF=backend:native gives it back"
_functions = {}  # id of an allocator: the allocator, and its two functions
_numbers = itertools.count(1)
_pools = {}  # id of a pool: libstalloc's pool


class _MemPool:
    def __init__(self, allocator=None, is_user_created=True, use_on_oom=False, no_split=False):
        self.__allocator = allocator
        self.__id = (1 << 40, next(_numbers))
        known = _functions.get(id(allocator))
        if known:
            _pools[self.__id] = library().stalloc_pool_make(*known[1:])
        elif allocator is not None:
            say("a memory pool whose allocator is not CUDAPluggableAllocator's is served as everything else: " + _NATIVE)
        else:
            say("memory pools of the program's own are served as everything else", warn=False)

    def __del__(self):
        pool = _pools.pop(getattr(self, "_MemPool__id", None), None)
        if pool:
            library().stalloc_pool_end(pool)

    id = property(lambda self: self.__id)
    allocator = property(lambda self: self.__allocator)

    def use_count(self):
        return 1


class _MemPoolContext:
    """Of versions before 2.8: which pool is active, beside being entered."""

    active = None

    def __init__(self, pool):
        self.before, _MemPoolContext.active = _MemPoolContext.active, pool

    def __del__(self):
        _MemPoolContext.active = self.before

    @staticmethod
    def active_pool():
        return _MemPoolContext.active


def _enter(device, *names):
    pool = _pools.get(tuple(names[-1]))
    if pool:
        library().stalloc_pool_enter(pool)


def _leave(device, *names):
    pool = _pools.get(tuple(names[-1])) if names else None
    if pool:
        library().stalloc_pool_leave()


def _custom(old):
    def custom(allocate, release):
        allocator = old(allocate, release)
        _functions[id(allocator)] = (allocator, allocate, release)
        return allocator

    return custom


def _settings(old):
    """What the backend has no use for gives way: as in the environment."""

    def settings(text):
        options = re.findall(r"[^,\[\]]+(?:\[[^\]]*\])?", text)
        kept = [option for option in options if option.strip().startswith("pinned_")]
        if len(kept) != len(options):
            say("without a meaning on PyTorch's cudaMallocAsync backend: " + text, warn=False)
        return old(",".join(kept)) if kept else None

    return settings


def install(torch):
    c = torch._C
    replace(c, "_cuda_customAllocator", _custom)
    for name in ("_cuda_cudaCachingAllocator_set_allocator_settings", "_accelerator_setAllocatorSettings"):
        if hasattr(c, name):
            replace(c, name, _settings)
    if not hasattr(c, "_MemPool"):
        return
    c._MemPool = _MemPool
    if hasattr(c, "_MemPoolContext"):
        c._MemPoolContext = _MemPoolContext
    for name in ("beginAllocateToPool", "beginAllocateCurrentThreadToPool", "beginAllocateCurrentStreamToPool"):
        if hasattr(c, "_cuda_" + name):
            replace(c, "_cuda_" + name, lambda old: _enter)
    for name in ("endAllocateToPool", "endAllocateCurrentStreamToPool"):
        if hasattr(c, "_cuda_" + name):
            replace(c, "_cuda_" + name, lambda old: _leave)
    replace(c, "_cuda_releasePool", lambda old: lambda *args: None)


def complete_graph_trees(module):
    """torch.compile's CUDA graphs share a pool whose state is checkpointed, which the backend cannot."""

    def plain(old):
        def cudagraphify_impl(model, *args, **kwargs):
            library().stalloc_note_graph_pools()
            return model

        return cudagraphify_impl

    replace(module, "cudagraphify_impl", plain)


def complete_graphs(module):
    def graphed(old):
        def make_graphed_callables(callables, *args, **kwargs):
            try:
                return old(callables, *args, **kwargs)
            except RuntimeError as error:
                if "captur" not in str(error):
                    raise
                library().stalloc_note_graph_pools()
                return callables

        return make_graphed_callables

    replace(module, "make_graphed_callables", graphed)


def complete_nccl(module):
    group = getattr(module, "ProcessGroupNCCL", None)
    for name in ("register_mem_pool", "deregister_mem_pool"):
        if hasattr(group, name):

            def registered(old):
                def register(self, pool, *args, **kwargs):
                    if not isinstance(pool, _MemPool):
                        return old(self, pool, *args, **kwargs)
                    say("NCCL registers no buffers of PyTorch's cudaMallocAsync backend: " + _NATIVE)

                return register

            replace(group, name, registered)
