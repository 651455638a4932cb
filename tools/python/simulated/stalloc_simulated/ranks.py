"""One rank of a world that does not run: STALLOC_SIMULATED_WORLD_SIZE and STALLOC_SIMULATED_RANK.

The program sees the variables that torchrun sets. Process groups are the ones that it asks for (NCCL over a stand-in
whose collectives return at once), but what it would keep in a store with the others is answered here, and groups on the
CPU are PyTorch's fake ones. A rank's own data stands for that of the others.
"""

import os
import sys

from stalloc_simulated import report


def world():
    """(rank, size), or None where the program's own processes are all there is."""
    size = int(os.environ.get("STALLOC_SIMULATED_WORLD_SIZE") or 0)
    if size <= 1:
        return None
    return int(os.environ.get("STALLOC_SIMULATED_RANK") or 0), size


def prepare_environment():
    """What torchrun would set. Of a launcher's own processes only the first is the rank; the others end."""
    if world() is None:
        return
    rank, size = world()
    if "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ.get("LOCAL_RANK", 0)) > 0:
        os._exit(0)
    devices = max(1, int(os.environ.get("SIMCUDA_DEVICES") or 1))
    values = {
        "RANK": rank,
        "WORLD_SIZE": size,
        "LOCAL_RANK": rank % devices,
        "LOCAL_WORLD_SIZE": min(size, devices),
        "GROUP_RANK": rank // devices,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": 29500,
    }
    os.environ.update({name: str(value) for name, value in values.items()})


def _store_class(dist):
    class Store(dist.Store):
        """Answers for everybody: a key that nobody here has set has been set by another rank."""

        def __init__(self):
            super().__init__()
            self._values = {}

        def _bytes(self, value):
            return value.encode() if isinstance(value, str) else bytes(value)

        def set(self, key, value):
            self._values[key] = self._bytes(value)

        def get(self, key):
            return self._values.get(key, b"simulated".ljust(128, b"\0"))

        def add(self, key, amount):
            total = int(self._values.get(key, b"0")) + amount
            self._values[key] = str(total).encode()
            return total

        def compare_set(self, key, expected, desired):
            current = self._values.get(key)
            if current is None and self._bytes(expected) == b"" or current == self._bytes(expected):
                self._values[key] = self._bytes(desired)
            return self._values.get(key, self._bytes(expected))

        def multi_get(self, keys):
            return [self.get(key) for key in keys]

        def multi_set(self, keys, values):
            for key, value in zip(keys, values):
                self.set(key, value)

        def append(self, key, value):
            self._values[key] = self._values.get(key, b"") + self._bytes(value)

        def delete_key(self, key):
            return self._values.pop(key, None) is not None

        def num_keys(self):
            return len(self._values)

        def check(self, keys):
            return all(key in self._values for key in keys)

        def wait(self, keys, timeout=None):
            return None

        def set_timeout(self, timeout):
            return None

        def has_extended_api(self):
            return True

        def clone(self):
            return self

    return Store


def _backend_of(requested):
    """The CPU's part is fake; NCCL's is real, over its stand-in."""
    text = str(requested).lower() if requested is not None else ""
    parts = dict(part.split(":", 1) for part in text.split(",") if ":" in part)
    if not parts:
        parts = {"cpu": text} if text in ("gloo", "mpi") else {"cuda": text or "nccl"}
    parts = {device: ("nccl" if backend == "nccl" else "fake") for device, backend in parts.items()}
    parts.setdefault("cpu", "fake")
    parts.setdefault("cuda", "nccl")
    return ",".join(f"{device}:{backend}" for device, backend in sorted(parts.items()))


def _object_collectives(c10d):
    """Of other ranks' objects, whose pickled bytes nobody sends, the own ones stand in."""

    def broadcast_object_list(object_list, src=None, group=None, device=None, *args, **kwargs):
        report.note_choice("broadcast_object_list")

    def scatter_object_list(output, input_list=None, src=None, group=None, *args, **kwargs):
        report.note_choice("scatter_object_list")
        if input_list:
            output[0] = input_list[c10d.get_rank(group) % len(input_list)]

    def gather_object(obj, object_gather_list=None, dst=None, group=None, *args, **kwargs):
        report.note_choice("gather_object")
        if object_gather_list is not None:
            object_gather_list[:] = [obj] * len(object_gather_list)

    def all_gather_object(object_list, obj, group=None):
        report.note_choice("all_gather_object")
        object_list[:] = [obj] * len(object_list)

    def send_object_list(object_list, *args, **kwargs):
        return None

    def recv_object_list(object_list, src=None, *args, **kwargs):
        report.note_choice("recv_object_list")
        return src if src is not None else 0

    return [broadcast_object_list, scatter_object_list, gather_object, all_gather_object, send_object_list,
            recv_object_list]


def install(c10d):
    """Called when torch.distributed.distributed_c10d has been imported, before the names are taken from it."""
    import torch

    if world() is None or not torch.distributed.is_available():
        return
    rank, size = world()
    import torch.testing._internal.distributed.fake_pg  # registers the backend "fake"

    store = _store_class(torch.distributed)()  # it lives as long as this module: its methods are Python's
    original = c10d.init_process_group

    def init_process_group(backend=None, init_method=None, timeout=None, *args, group_name="", **kwargs):
        # Who the program says it is, how it would meet the others, and its device do not matter.
        report.note_unsimulated(f"the other {size - 1} ranks of the world")
        return original(_backend_of(backend), timeout=timeout, world_size=size, rank=rank, store=store,
                        group_name=group_name)

    new_group = c10d.new_group

    def simulated_new_group(ranks=None, timeout=None, backend=None, *args, **kwargs):
        kwargs.pop("device_id", None)
        return new_group(ranks, timeout, _backend_of(backend) if backend is not None else None, *args, **kwargs)

    simulated_new_group.__name__ = "new_group"
    for function in (init_process_group, simulated_new_group, *_object_collectives(c10d)):
        for module in (c10d, torch.distributed):
            if hasattr(module, function.__name__):
                setattr(module, function.__name__, function)
