from torch import _C

if hasattr(_C, "_MemPool"):
    from torch._C import _MemPool

    class MemPool(_MemPool):
        def __init__(self, allocator=None):
            super().__init__(allocator, True, False, False)

        @property
        def id(self):
            return super().id
