"""What every workload shares: arguments, determinism, the measured loop and the JSON record of a run.

A workload is a file that defines build(job) -> step and ends with main(NAME, build). step(i) runs one training step,
asynchronously as any trainer does, and returns its loss as a tensor. The loop synchronises at the end of every step and
takes all readings (loss, counters, NVML) after the clock has stopped, so that they cost the step nothing.

Nothing here knows of any allocator: the same file runs under all of them, chosen by the environment alone.
"""

import argparse
import hashlib
import json
import os
import shlex
import statistics
import sys
import time
import warnings

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with a fixed workspace

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness.child import TURNS
from harness.device import Nvml

OUT_OF_MEMORY = 3  # exit code of a run that ended in the program's own out-of-memory error


class Job:
    """What a workload's build() is given: sizes, the device, seeded randomness, and where to leave its parameters."""

    def __init__(self, arguments):
        self.tiny = arguments.tiny
        self.seed = arguments.seed
        self.steps = arguments.steps
        self.device = torch.device(arguments.device)
        self.cuda = self.device.type == "cuda"
        self._sizes, self._recompute = dict(arguments.size), arguments.recompute
        self._known = []  # the names of the sizes that the workload has
        self.generator = torch.Generator(device=self.device).manual_seed(arguments.seed + 1)
        self.kept = []

    def pick(self, full, tiny):
        """`full`, or `tiny` in a dry run."""
        return tiny if self.tiny else full

    def sizes(self, **named):
        """The sizes called so, each given as (full, tiny), in this order; --size NAME=NUMBER overrides one."""
        self._known += named
        return tuple(self._sizes.get(name, self.pick(*choice)) for name, choice in named.items())

    def batch(self, full, tiny):
        """The batch size: --batch if given."""
        return self.sizes(batch=(full, tiny))[0]

    def unknown_sizes(self):
        """What is wrong with --size, "" if nothing: names that build() did not ask for."""
        unknown = [name for name in self._sizes if name not in self._known]
        return f"no such size: {', '.join(unknown)}; there are {', '.join(self._known) or 'none'}" if unknown else ""

    def recompute(self, layers):
        """How many of the layers are recomputed in the backward pass: all, or --recompute of them."""
        return layers if self._recompute is None else min(layers, self._recompute)

    def autocast(self):
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def tokens(self, batch, length, vocabulary):
        return torch.randint(vocabulary, (batch, length), generator=self.generator, device=self.device)

    def randn(self, *shape, dtype=torch.float32):
        return torch.randn(*shape, generator=self.generator, device=self.device, dtype=dtype)

    def keep(self, *things):
        """Registers modules or tensors whose final bits belong to the result."""
        self.kept.extend(things)


def _size(text):
    """("width", 768) of "width=768": an argument's type."""
    name, _, number = text.partition("=")
    if not name.isidentifier() or not number.isdecimal() or int(number) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=NUMBER, with a whole number above zero")
    return name, int(number)


def _parser(name):
    parser = argparse.ArgumentParser(prog=name, description=f"Trains the {name} workload and records what happened.")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=8, help="steps left out of the median step time")
    parser.add_argument(
        "--size",
        type=_size,
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        help="instead of the workload's own: layers=12, width=768, ... (asked for an unknown one, it names those it has)",
    )
    parser.add_argument(
        "--batch", type=lambda text: _size(f"batch={text}"), action="append", dest="size", help="--size batch=BATCH"
    )
    parser.add_argument("--recompute", type=int, metavar="LAYERS", help="layers to recompute; all unless given")
    parser.add_argument("--tiny", action="store_true", help="small enough for a CPU: checks the script, not memory")
    parser.add_argument("--seed", type=int, default=1234)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--out", help="where the JSON record goes")
    parser.add_argument(
        "--gate", action="store_true", help="after the imports, wait on stdin for a line of more options"
    )
    return parser


def _parse(name):
    """The options, of the command line and, behind a gate, of the line that opens it.

    A harness starts processes early, several side by side, so that nothing is imported while another one is measured:
    here all imports are done and CUDA is untouched.
    """
    parser = _parser(name)
    arguments = parser.parse_args()
    if not arguments.gate:
        return arguments
    import torch._dynamo  # noqa: F401  every optimizer imports it when it is made, for seconds

    print("ready", flush=True)
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)  # the harness is gone, or has no use for this process any more
    return parser.parse_args(sys.argv[1:] + shlex.split(line))


def make_deterministic(seed):
    torch.manual_seed(seed)
    # Strict: with warn_only, flash attention keeps its non-deterministic backward pass and no two runs agree.
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # would hide reads of memory that was reused too early
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.enable_cudnn_sdp(False)  # flash attention has a deterministic backward pass, these have not
    torch.backends.cuda.enable_mem_efficient_sdp(False)


def _bits(tensor):
    """The tensor's bits as integers of its own width."""
    tensor = tensor.detach().contiguous()
    width = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    return tensor.view(width).reshape(-1)


def _tensors(things):
    for thing in things:
        if isinstance(thing, torch.Tensor):
            yield thing
        else:
            yield from (t for _, t in sorted(thing.state_dict().items()))


@torch.no_grad()
def checksum(things):
    """A digest of the exact bits. Integer sums commute, so the reduction order on the device does not matter."""
    digest = hashlib.sha256()
    for tensor in _tensors(things):
        for piece in _bits(tensor).split(1 << 24):  # pieces: reading the result must not raise the run's peak
            wide = piece.to(torch.int64)
            position = torch.arange(wide.numel(), device=wide.device) % 8191 + 1
            total = torch.stack([wide.sum(), (wide * position).sum()])
            digest.update(bytes(str(total.tolist()), "ascii"))
    return digest.hexdigest()[:16]


def _await_turn():
    """Before each step and after the last: lets a harness that gives turns say when this process goes on; ends it if
    the harness has gone."""
    if descriptor := os.environ.get(TURNS):
        os.write(int(descriptor), b".")
        if not sys.stdin.readline():
            sys.exit(0)


def _loop(job, step, record):
    nvml = Nvml() if job.cuda else None
    for i in range(job.steps):
        _await_turn()
        started = time.perf_counter()
        loss = step(i)
        if job.cuda:
            torch.cuda.synchronize()
        record["step_ms"].append((time.perf_counter() - started) * 1e3)
        record["losses"].append(float(loss).hex())
        del loss
        if job.cuda:
            record["driver_used_bytes"].append(nvml.used_bytes())
            record["allocated_bytes"].append(torch.cuda.memory_allocated())
            record["reserved_bytes"].append(torch.cuda.memory_reserved())
    _await_turn()


def _finish(record, job, arguments, caught):
    timed = record["step_ms"][arguments.warmup :]
    record["median_step_ms"] = statistics.median(timed) if timed else None
    if job.cuda:
        record["peak_allocated_bytes"] = torch.cuda.max_memory_allocated()
        record["peak_reserved_bytes"] = torch.cuda.max_memory_reserved()
        record["allocation_retries"] = torch.cuda.memory_stats().get("num_alloc_retries")
        record["backend"] = torch.cuda.get_allocator_backend()
        record["gpu"] = torch.cuda.get_device_name()
    if not record["oom"]:
        record["checksum"] = checksum(job.kept)
    record["warnings"] = sorted({str(w.message).split("\n")[0][:160] for w in caught})


def main(name, build):
    arguments = _parse(name)
    make_deterministic(arguments.seed)
    record = {
        "workload": name,
        "tiny": arguments.tiny,
        "seed": arguments.seed,
        "steps": arguments.steps,
        "warmup": arguments.warmup,
        "torch": torch.__version__,
        "alloc_conf": os.environ.get("PYTORCH_ALLOC_CONF", os.environ.get("PYTORCH_CUDA_ALLOC_CONF")),
        "oom": False,
    }
    for series in ("losses", "step_ms", "driver_used_bytes", "allocated_bytes", "reserved_bytes"):
        record[series] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        job = Job(arguments)
        try:
            step = build(job)
            if wrong := job.unknown_sizes():
                print(f"{name}: {wrong}", file=sys.stderr)
                return 2
            _loop(job, step, record)
        except torch.OutOfMemoryError as error:
            record["oom"] = True
            record["oom_message"] = str(error)[:400]
        _finish(record, job, arguments, caught)
    text = json.dumps(record)
    if arguments.out:
        with open(arguments.out + ".part", "w") as file:
            file.write(text)
        os.replace(arguments.out + ".part", arguments.out)
    last = float.fromhex(record["losses"][-1]) if record["losses"] else float("nan")
    print(
        f"{name}: {len(record['losses'])} steps, last loss {last:.6f}, median {record['median_step_ms']} ms", flush=True
    )
    return OUT_OF_MEMORY if record["oom"] else 0
