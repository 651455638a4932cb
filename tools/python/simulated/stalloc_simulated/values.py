"""Contents that decide what a program does.

Kernels on the simulated device do nothing, so a tensor holds what a copy from the host put there, or what its memory
held before. Three rules keep programs on their way:

1. Small tensors of integers and booleans, and a few floating-point numbers, are computed on the host: counts, masks,
   indices, sizes, boxes, flags and scales are right where their inputs are.
2. Where such a result comes from floating-point data, which nobody computed, a seeded choice within bounds stands in:
   indices of topk and argmax, samples, comparisons; losses and norms lie between 0 and 1.
3. A number that the program reads is finite.

The choices depend on the order of the operators and on nothing else, so they are the same under every allocator. They
are counted for the report. The overrides are kernels of the dispatch key CUDA; what they do not handle goes to
PyTorch's own kernel, for about a microsecond.
"""

import ctypes
import functools
import math
import os
import warnings

from stalloc_simulated import report

# Elements up to which integers are computed on the host.
_MOST_ELEMENTS = 1 << 20
# Likewise floating-point numbers: a few boxes, the parts of a loss. Weights and activations have more.
_MOST_NUMBERS = 64
# Floating-point numbers up to which a copy from the host carries its bytes.
_MOST_CARRIED = 1 << 16
# Tensors that are joined: more of them are parts of a model, not of a decision.
_MOST_JOINED = 16

# Operators that are computed on the host where all their tensors are small and hold integers, or are single numbers.
_COMPUTED = """
    add sub rsub mul div floor_divide remainder fmod neg abs sign pow clamp clamp_min clamp_max minimum maximum
    bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift
    logical_and logical_or logical_xor logical_not eq ne lt le gt ge where isin
    cat flip roll tril triu repeat_interleave index_select gather scatter scatter_add scatter_reduce index
    _index_put_impl_ index_put_ masked_fill masked_fill_ masked_scatter_ masked_select take index_add index_copy
    index_fill index_fill_ fill_ zero_ copy_ cumsum cumprod cummax cummin sum prod any all max min amax amin aminmax
    argmax argmin argsort sort topk kthvalue median mode unique_dim unique_consecutive _unique2 unique_dim_consecutive
    nonzero count_nonzero bincount histc searchsorted bucketize arange linspace range random_ randperm equal
    uniform_ normal_ exponential_ bernoulli_ mean linalg_vector_norm stack reciprocal sqrt exp log round floor ceil trunc isnan isinf sigmoid lerp addcmul addcdiv
""".split()

# Operators whose result is often the one number that a program looks at.
_NUMBERS = """
    mean sum sum.dim_IntList mean.dim linalg_vector_norm norm.Scalar norm.ScalarOpt_dim nll_loss_forward
    nll_loss2d_forward mse_loss smooth_l1_loss huber_loss binary_cross_entropy max min amax amin median prod var.correction
    std.correction var_mean.correction logsumexp dot
""".split()

_generator = None


def _own_generator(torch):
    global _generator
    if _generator is None:
        _generator = torch.Generator()
        _generator.manual_seed(int(os.environ.get("SIMCUDA_SEED") or 0) + 1)
    return _generator


class _Values:
    def __init__(self, torch):
        self.torch = torch
        self.integers = {torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool}
        self.library = torch.library.Library("aten", "IMPL")
        self.cuda_keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
        self.overridden = set()
        self.driver = ctypes.CDLL("libcuda.so.1")

    # -- copies between host and device that bypass the overrides --------------------------------------------------

    def to_host(self, tensor):
        """The contents as a tensor of the host, with the device tensor's sizes."""
        torch = self.torch
        if tensor.numel() == 0:
            return torch.empty(tensor.shape, dtype=tensor.dtype)
        if not tensor.is_contiguous():
            # What lies between the elements comes along; no kernel gathers them.
            extent = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
            flat = tensor.as_strided((extent,), (1,), tensor.storage_offset())
            return self._read(flat).as_strided(tensor.shape, tensor.stride())
        return self._read(tensor)

    def _read(self, tensor):
        torch = self.torch
        host = torch.empty(tensor.shape, dtype=tensor.dtype)
        self.copy(host, tensor.detach(), False)
        if tensor.dtype is torch.bool:  # memory that held something else is no boolean
            host = host.view(torch.uint8) != 0
        return host

    def to_device(self, tensor, host):
        """Writes what the host computed; `host` has the same number of elements."""
        if host.numel() == 0:
            return
        tensor = tensor.detach()
        host = host.detach().to(tensor.dtype).reshape(tensor.shape)
        if tensor.is_contiguous():
            self.copy(tensor, host.contiguous(), False)
            return
        extent = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
        flat = tensor.as_strided((extent,), (1,), tensor.storage_offset())
        whole = self._read(flat)
        whole.as_strided(tensor.shape, tensor.stride()).copy_(host)
        self.copy(flat, whole, False)

    def clear(self, tensor):
        """Zeros: what is too large to be written lies within bounds."""
        size_bytes = tensor.numel() * tensor.element_size()
        if size_bytes:
            self.torch.cuda.current_stream().synchronize()
            self.driver.cuMemsetD8_v2(ctypes.c_uint64(tensor.data_ptr()), 0, ctypes.c_size_t(size_bytes))

    def skip_copy(self, tensor, source):
        """Activations and weights from the host become zeros: their bytes would crowd out those of indices and masks,
        of which the device keeps a limited number."""
        if source.dtype in self.integers or source.is_cuda or source.device.type != "cpu":
            return False
        if source.numel() <= _MOST_CARRIED or tensor.dtype is not source.dtype or tensor.shape != source.shape:
            return False
        if not (tensor.is_contiguous() and source.is_contiguous()):
            return False
        stream = self.torch.cuda.current_stream(tensor.device).cuda_stream
        size_bytes = tensor.numel() * tensor.element_size()
        with self.torch.cuda.device(tensor.device):
            failed = self.driver.cuMemsetD8Async(
                ctypes.c_uint64(tensor.data_ptr()), 0, ctypes.c_size_t(size_bytes), ctypes.c_void_p(stream)
            )
        return failed == 0

    def new_on_device(self, host, device):
        result = self.torch.empty_strided(host.shape, host.stride(), dtype=host.dtype, device=device)
        self.to_device(result, host)
        return result

    # -- rule 1 ----------------------------------------------------------------------------------------------------

    def computable(self, value):
        """Whether the host may compute with this argument: True, False, or None for what is no tensor."""
        torch = self.torch
        if isinstance(value, torch.Tensor):
            if value.dtype in self.integers:
                return value.numel() <= _MOST_ELEMENTS and value.layout is torch.strided
            return value.numel() <= _MOST_NUMBERS and value.layout is torch.strided and value.is_floating_point()
        if isinstance(value, (list, tuple)):
            found = None
            for item in value:
                one = self.computable(item)
                if one is False:
                    return False
                found = found if one is None else one
            return found
        return None

    def capturing(self):
        return self.torch.cuda.is_current_stream_capturing()

    def on_host(self, value):
        torch = self.torch
        if isinstance(value, torch.Tensor):
            return self.to_host(value) if value.is_cuda else value.detach()
        if isinstance(value, (list, tuple)):
            return type(value)(self.on_host(item) for item in value)
        if isinstance(value, torch.Generator):
            return _own_generator(torch)
        return value

    def to_results(self, results, device):
        torch = self.torch
        if isinstance(results, torch.Tensor):
            return self.new_on_device(results, device)
        if isinstance(results, (list, tuple)):
            return type(results)(self.to_results(item, device) for item in results)
        return results

    def compute(self, operator, names, written, takes_generator, args, kwargs):
        torch = self.torch
        device = next(t for t in _tensors((args, tuple(kwargs.values())), torch) if t.is_cuda).device
        host_args = [self.on_host(value) for value in args]
        host_kwargs = {name: self.on_host(value) for name, value in kwargs.items()}
        if takes_generator:
            host_kwargs["generator"] = _own_generator(torch)
        with torch.no_grad():
            results = operator(*host_args, **host_kwargs)
        if not written:
            return self.to_results(results, device)
        given = dict(zip(names, zip(args, host_args)))
        given.update({name: (kwargs[name], host_kwargs[name]) for name in kwargs})
        outputs = []
        for name in written:
            tensor, host = given[name]
            if tensor.shape != host.shape:
                tensor.resize_(host.shape)
            self.to_device(tensor, host)
            outputs.append(tensor)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def override(self, operator, choose=None):
        """Puts a kernel in front of PyTorch's. `choose(original, *args)` decides what rule 1 does not cover."""
        torch = self.torch
        schema = operator._schema
        name = operator._name
        short = name.removeprefix("aten::")
        if name in self.overridden or not self.has_cuda_kernel(name):
            return
        original = self.original(operator)
        if original is None:
            return
        names = [argument.name for argument in schema.arguments]
        written = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
        takes_generator = any(argument.name == "generator" for argument in schema.arguments)
        is_copy, skip_copy = name == "aten::copy_", self.skip_copy
        computable, compute, integers, Tensor = self.computable, self.compute, self.integers, torch.Tensor

        def kernel(*args, **kwargs):
            first = args[0] if args else None
            # Most calls end here: a floating-point tensor.
            if isinstance(first, Tensor):
                if choose is None and first.dtype not in integers and first.numel() > _MOST_NUMBERS and not is_copy:
                    return original(*args, **kwargs)
            elif isinstance(first, (list, tuple)) and len(first) > _MOST_JOINED and first[0].dtype not in integers:
                return original(*args, **kwargs)
            if is_copy:
                if not (first.is_cuda and args[1].is_cuda):
                    return first if skip_copy(first, args[1]) else original(*args, **kwargs)
                if first.is_contiguous() and args[1].is_contiguous() and first.dtype is args[1].dtype:
                    return original(*args, **kwargs)  # a copy that needs no kernel
            verdict = computable(args[1:] if is_copy else args)
            if verdict is not False and kwargs:
                inner = computable(tuple(kwargs.values()))
                verdict = inner if inner is not None else verdict
            if verdict is True and not self.capturing():
                try:
                    return compute(operator, names, written, takes_generator, args, kwargs)
                except (NotImplementedError, RuntimeError, IndexError):
                    # The host has no such kernel, or the contents make no sense; what the program got wrong itself, the
                    # device's kernel finds too.
                    report.note_choice(short)
            if choose is not None and not self.capturing():
                result = choose(original, *args, **kwargs)
                if result is not NotImplemented:
                    report.note_choice(short)
                    return result
            return original(*args, **kwargs)

        self.library.impl(operator, kernel, "CUDA")
        self.overridden.add(name)

    def has_cuda_kernel(self, name):
        """A kernel for CUDA or for all backends; operators that only call others are left alone."""
        has_kernel = self.torch._C._dispatch_has_kernel_for_dispatch_key
        try:
            return has_kernel(name, "CUDA") or has_kernel(name, "CompositeExplicitAutograd")
        except RuntimeError:  # an overload of TorchScript alone
            return False

    def original(self, operator):
        """PyTorch's own kernel."""
        torch = self.torch
        get_kernel = getattr(torch.library, "get_kernel", None)
        if get_kernel is None:
            return None
        kernel = functools.partial(get_kernel(operator, "CUDA").call_boxed, self.cuda_keys)
        types = [argument.type.kind() for argument in operator._schema.arguments[:2]]
        if types[-1:] != ["TensorType"]:
            return kernel
        kinds = {bool: torch.bool, int: torch.int64, float: None, complex: None}

        def with_numbers(first, second=None, *args, **kwargs):
            """A number that stands for a tensor arrives here as a Python number."""
            if type(second) in kinds:
                second = torch.scalar_tensor(second, dtype=kinds[type(second)])
            if types[0] == "TensorType" and type(first) in kinds:
                first = torch.scalar_tensor(first, dtype=kinds[type(first)])
            return kernel(first, **kwargs) if second is None else kernel(first, second, *args, **kwargs)

        return with_numbers

    # -- rule 2 ----------------------------------------------------------------------------------------------------

    def random_integers(self, shape, bound):
        return self.torch.randint(0, max(int(bound), 1), tuple(shape), generator=_own_generator(self.torch))

    def distinct_integers(self, rows_shape, count, bound):
        """In every row `count` different numbers below `bound`."""
        torch = self.torch
        first = self.random_integers((*rows_shape, 1), bound)
        return (first + torch.arange(count)) % max(bound, 1)

    def choose_indices(self, indices, dim, bound, distinct=False):
        """Fills an index result along `dim`."""
        if indices.numel() == 0:
            return
        if indices.numel() > 4 * _MOST_ELEMENTS:
            self.clear(indices)
            return
        if distinct and indices.dim() > 0:
            dim %= indices.dim()
            rows = [size for axis, size in enumerate(indices.shape) if axis != dim]
            host = self.distinct_integers(rows, indices.shape[dim], bound).movedim(-1, dim)
        else:
            host = self.random_integers(indices.shape, bound)
        self.to_device(indices, host)


def _tensors(values, torch):
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value, torch)


def _choices(values):
    """Rule 2, operator by operator: overload -> choose(original, arguments)."""
    torch = values.torch

    def extent(tensor, dim):
        return tensor.numel() if dim is None else (tensor.shape[dim] if tensor.dim() else 1)

    def argument_of_extreme(original, tensor, dim=None, keepdim=False):
        result = original(tensor, dim, keepdim)
        values.choose_indices(result, 0, extent(tensor, dim))
        return result

    def extreme_and_index(original, tensor, dim, keepdim=False):
        result = original(tensor, dim, keepdim)
        values.choose_indices(result[1], dim, extent(tensor, dim))
        return result

    def topk(original, tensor, k, dim=-1, largest=True, sorted=True):
        result = original(tensor, k, dim, largest, sorted)
        values.choose_indices(result[1], dim, extent(tensor, dim), distinct=True)
        return result

    def sort(original, tensor, *args, **kwargs):
        result = original(tensor, *args, **kwargs)
        dim = kwargs.get("dim", next((a for a in reversed(args) if isinstance(a, int) and not isinstance(a, bool)), -1))
        if result[1].numel():
            values.choose_indices(result[1], dim, extent(tensor, dim), distinct=True)
        return result

    def multinomial(original, tensor, samples, replacement=False, generator=None):
        result = tensor.new_empty((*tensor.shape[:-1], samples), dtype=torch.int64)
        values.choose_indices(result, -1, tensor.shape[-1], distinct=not replacement)
        return result

    def positions(original, sorted_sequence, tensor, *args, **kwargs):
        result = original(sorted_sequence, tensor, *args, **kwargs)
        if isinstance(result, torch.Tensor) and result.numel() <= _MOST_ELEMENTS:
            values.choose_indices(result, 0, sorted_sequence.shape[-1])
        return result

    def bucket(original, tensor, boundaries, *args, **kwargs):
        return positions(lambda b, t, *a, **k: original(t, b, *a, **k), boundaries, tensor, *args, **kwargs)

    def comparison(name):
        def choose(original, first, second):
            result = original(first, second)
            if result.numel() > _MOST_ELEMENTS or result.numel() == 0:
                return result
            same = isinstance(second, torch.Tensor) and first.data_ptr() == second.data_ptr()
            infinite = isinstance(second, (int, float)) and math.isinf(second)
            if same:  # how isnan and isfinite are written
                host = torch.full(result.shape, name in ("eq", "le", "ge"))
            elif infinite:
                host = torch.full(result.shape, name == "ne" or (name in ("lt", "le")) == (second > 0))
                if name == "eq":
                    host = torch.zeros(result.shape, dtype=torch.bool)
            else:
                host = values.random_integers(result.shape, 2) != 0
            values.to_device(result, host)
            return result

        return choose

    def constant(value):
        """A check of floating-point data comes out well."""

        def choose(original, *args, **kwargs):
            result = original(*args, **kwargs)
            if isinstance(result, torch.Tensor) and result.numel() <= _MOST_ELEMENTS:
                values.to_device(result, torch.full(result.shape, value))
            return result

        return choose

    def nonzero(original, tensor):
        """Of data too large or not computed: every other element."""
        count = tensor.numel() // 2
        result = torch.empty_strided((count, tensor.dim()), (1, max(count, 1)), dtype=torch.int64, device=tensor.device)
        if 0 < count <= _MOST_ELEMENTS and tensor.dim() > 0:
            flat = torch.arange(count) * 2
            values.to_device(result, torch.stack(torch.unravel_index(flat, tensor.shape), 1))
        else:
            values.clear(result)
        return result

    def counts(bins_of):
        def choose(original, tensor, *args, **kwargs):
            bins = bins_of(*args, **kwargs)
            host = values.random_integers((tensor.numel(),), bins).bincount(minlength=bins)
            return values.new_on_device(host.to(kwargs.get("dtype") or original_dtype(tensor)), tensor.device)

        def original_dtype(tensor):
            return tensor.dtype if bins_of is histogram_bins else torch.int64

        return choose

    def histogram_bins(bins=100, *_):
        return bins

    def bincount_bins(weights=None, minlength=0):
        return max(minlength, 1)

    def number(original, *args, **kwargs):
        """A loss or a norm, or a reduction to one number."""
        result = original(*args, **kwargs)
        first = result[0] if isinstance(result, tuple) else result
        if first.dim() > 0 or not first.is_floating_point():
            return result
        values.to_device(first, torch.rand((), generator=_own_generator(torch)))
        return result

    def equal(original, first, second):
        return first.shape == second.shape

    rows = {
        "argmax": argument_of_extreme,
        "argmin": argument_of_extreme,
        "max.dim": extreme_and_index,
        "min.dim": extreme_and_index,
        "topk": topk,
        "sort": sort,
        "sort.stable": sort,
        "multinomial": multinomial,
        "searchsorted.Tensor": positions,
        "bucketize.Tensor": bucket,
        "all": constant(True),
        "any": constant(False),
        "all.dim": constant(True),
        "any.dim": constant(False),
        "isnan": constant(False),
        "isinf": constant(False),
        "nonzero": nonzero,
        "histc": counts(histogram_bins),
        "bincount": counts(bincount_bins),
        "equal": equal,
    }
    for name in _NUMBERS:
        rows[name] = number
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        rows[f"{name}.Tensor"] = rows[f"{name}.Scalar"] = comparison(name)
    return rows


def _read_scalars(values):
    """Rule 3: what item() answers."""
    torch = values.torch
    operator = torch.ops.aten._local_scalar_dense.default
    original = values.original(operator)
    if original is None:
        return
    most = 1 << 40

    def kernel(tensor):
        value = original(tensor)
        if isinstance(value, bool):
            return bool(values.to_host(tensor))
        if isinstance(value, int):
            if abs(value) < most:
                return value
        elif isinstance(value, float):
            if math.isfinite(value) and (value == 0 or 1e-30 < abs(value) < 1e30):
                return value
        else:
            return value
        report.note_choice("item")
        return type(value)(0)

    values.library.impl(operator, kernel, "CUDA")


def install(torch):
    values = _Values(torch)
    values.copy = values.original(torch.ops.aten.copy_.default)
    if values.copy is None:
        report.note_unsimulated("contents (this PyTorch does not hand out its kernels)")
        return
    choices = _choices(values)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, choose in choices.items():
            base, _, overload = name.partition(".")
            packet = getattr(torch.ops.aten, base)
            operator = getattr(packet, overload or "default", None)
            if operator is not None:
                values.override(operator, choose)
        for base in _COMPUTED:
            packet = getattr(torch.ops.aten, base, None)
            if packet is None:
                continue
            for overload in packet.overloads():
                values.override(getattr(packet, overload))
            inplace = getattr(torch.ops.aten, base + "_", None)
            for overload in inplace.overloads() if inplace is not None else ():
                values.override(getattr(inplace, overload))
        _read_scalars(values)
