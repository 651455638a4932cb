"""Runs a program and writes PyTorch's peaks at its end: measured.py OUT.json PROGRAM [ARGUMENTS...].

Of the device on which most was allocated. Knows nothing of stalloc and of the simulated device.
"""

import json
import runpy
import sys

import torch


def main():
    out = sys.argv[1]
    sys.argv = sys.argv[2:]
    runpy.run_path(sys.argv[0], run_name="__main__")
    torch.cuda.synchronize()
    peaks = [(torch.cuda.max_memory_allocated(device), torch.cuda.max_memory_reserved(device))
             for device in range(torch.cuda.device_count())]
    live, reserved = max(peaks)
    with open(out, "w", encoding="utf-8") as file:
        json.dump({"live_bytes": live, "reserved_bytes": reserved, "backend": torch.cuda.get_allocator_backend(),
                   "torch": torch.__version__}, file)


main()
