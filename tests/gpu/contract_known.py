"""Rows of the contract that are known to differ from the driver's, in which columns, and why.

Anything else that differs is a fault, and so is a row that is said here to differ and does not.
"""

from harness.fidelity import BOTH_SHIMS, SHIM, SIMULATED, SIMULATED_SHIM, Explanation

_PAGES = "said of the mapped pages that the block lies in, which are no context's and no pool's"

KNOWN = [
    Explanation(
        "ipc_handle_of_malloc",
        BOTH_SHIMS,
        "a block lies in pages that others share: STALLOC_IPC=on leaves such memory to the driver",
    ),
    Explanation(
        "large_aligned_2MiB_malloc",
        BOTH_SHIMS,
        "blocks of 2 MiB and more lie where there is room, on 512 bytes; CUDA promises 256",
    ),
    Explanation("attribute_legacy_ipc_malloc", BOTH_SHIMS, _PAGES),
    Explanation("attribute_context_malloc", BOTH_SHIMS, _PAGES),
    Explanation("attribute_rdma_async", BOTH_SHIMS, _PAGES),
    Explanation("attribute_pool_async", BOTH_SHIMS, _PAGES),
    Explanation("retained_handle_*", BOTH_SHIMS, _PAGES),
    Explanation(
        "attribute_sync_*",
        BOTH_SHIMS,
        "the driver does not take SYNC_MEMOPS for mapped memory; the program gets its error",
    ),
    Explanation(
        "pool_used_rises",
        (SHIM, SIMULATED, SIMULATED_SHIM),
        "the driver counts less reserved than used at that moment",
    ),
    Explanation(
        "order_synchronous_free_of_async_*",
        (SHIM,),
        "the driver hands the memory out too early, the shim does not",
    ),
    *(
        Explanation(
            rows,
            (SHIM, SIMULATED, SIMULATED_SHIM),
            "the driver refuses a request on another stream than the captured one, and ends the capture; served memory "
            "needs no call that a capture forbids",
        )
        for rows in ("capture_async_*_global_*", "capture_async_*_thread_local_same_thread")
    ),
]
