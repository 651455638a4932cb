"""torch.compile with CUDA graph trees, which need PyTorch's own allocator. The source says so: the shim reads it before
PyTorch is loaded, and leaves the process on a backend that works, in the first run.
"""

import torch_graph_trees

if __name__ == "__main__":
    torch_graph_trees.report("reduce_overhead", "reduce-overhead")
