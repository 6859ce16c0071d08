#!/usr/bin/env python3
"""Random calls of ATen operators, exported to ExecuTorch programs, against PyTorch itself.

    pte_differential.py --smelt build/release/bin/smelt [--seed 1] [--count 300] [--ops topk,conv] [--delegate xnnpack]

Each call has random element types, shapes (empty ones, scalars), arguments (negative dimensions, broadcasting, special
numbers). `smelt verify` runs every program on both back-ends; exit status 1 when a result differs, 77 when torch or
executorch is missing. With --keep FOLDER the programs stay for a closer look.
"""
import argparse
import json
import logging
import pathlib
import random
import subprocess
import sys
import tempfile
import warnings

try:
    import numpy as np
    import torch
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
except ImportError as e:
    print("skipped:", e)
    sys.exit(77)

A = torch.ops.aten
FLOATS = [torch.float32] * 4 + [torch.float16, torch.bfloat16, torch.float64]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
ALL = FLOATS + INTEGERS + [torch.bool]
rng = random.Random()
one_of = rng.choice
OPERATORS = {}


def operator(make):
    """Registers a function that gives (overload, arguments[, keyword arguments])."""
    OPERATORS[make.__name__] = make
    return make


def shape(low=0, high=4, largest=5, empty=0.05):
    return [0 if rng.random() < empty else rng.randint(1, largest) for _ in range(rng.randint(low, high))]


def broadcast(sizes):
    sizes = [1 if rng.random() < 0.3 else d for d in sizes]
    return sizes[rng.randint(0, len(sizes)):] if rng.random() < 0.3 else sizes


def tensor(sizes, dtype, low=-4, high=4, special=0.15):
    if dtype == torch.bool:
        return torch.rand(sizes) > 0.5
    if dtype.is_floating_point:
        x = (torch.rand(sizes, dtype=torch.float64) * (high - low) + low).flatten()
        if rng.random() < special and x.numel() > 1:
            for v in (float("nan"), float("inf"), -float("inf"), -0.0):
                if rng.random() < 0.5:
                    x[rng.randrange(x.numel())] = v
        return x.reshape(sizes).to(dtype)
    return torch.randint(max(int(low), 0) if dtype == torch.uint8 else int(low), int(high) + 1, sizes).to(dtype)


def some(types, **limits):
    return tensor(shape(**limits), one_of(types))


def dim(x):
    return rng.randrange(-x.dim(), x.dim()) if x.dim() else one_of([0, -1])


def dims(x):
    return rng.sample(range(-x.dim(), 0), rng.randint(0, x.dim()))


def number():
    return one_of([rng.randint(-3, 3), round(rng.uniform(-3, 3), 2)])


def flip_coin():
    return rng.random() < 0.5


UNARY = ("abs acos acosh asin asinh atan atanh ceil cos cosh erf exp expm1 floor isinf isnan log log10 log1p log2 "
         "logical_not neg reciprocal relu round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc bitwise_not").split()
BINARY = "add sub mul div eq ne lt le gt ge fmod remainder".split()
PLAIN_BINARY = "maximum minimum atan2 floor_divide logical_and logical_or logical_xor".split()


@operator
def unary():
    return getattr(A, one_of(UNARY)).default, [some(ALL)]


@operator
def parametrized_unary():
    x = some(FLOATS)
    return one_of([
        (A.hardtanh.default, [x, -1.5, 2]), (A.leaky_relu.default, [x, one_of([0.1, -0.3])]),
        (A.elu.default, [x, 1.5, 2, 0.5]), (A.gelu.default, [x], {"approximate": one_of(["none", "tanh"])}),
        (A.logit.default, [x, one_of([None, 0.1])]), (A.clamp.default, [x, one_of([None, number()]), number()]),
    ])


@operator
def binary():
    sizes = shape()
    x, y = tensor(sizes, one_of(ALL)), tensor(broadcast(sizes), one_of(ALL))
    f = getattr(A, one_of(BINARY))
    if f in (A.add, A.sub) and flip_coin():
        return f.Tensor, [x, y], {"alpha": one_of([1, 2, -1])}
    return (f.Scalar, [x, number()]) if rng.random() < 0.4 else (f.Tensor, [x, y])


@operator
def plain_binary():
    sizes = shape()
    pair = [tensor(sizes, one_of(ALL)), tensor(broadcast(sizes), one_of(ALL))]
    rng.shuffle(pair)
    return getattr(A, one_of(PLAIN_BINARY)).default, pair


@operator
def division():
    sizes, types = shape(), FLOATS + INTEGERS
    return A.div.Tensor_mode, [tensor(sizes, one_of(types)), tensor(broadcast(sizes), one_of(types))], {
        "rounding_mode": one_of(["floor", "trunc", None])}


@operator
def power():
    sizes = shape()
    x, y = tensor(sizes, one_of(ALL)), tensor(broadcast(sizes), one_of(ALL))
    return one_of([(A.pow.Tensor_Tensor, [x, y]), (A.pow.Tensor_Scalar, [x, number()]), (A.pow.Scalar, [number(), x])])


@operator
def bits():
    sizes, f = shape(), getattr(A, "bitwise_" + one_of(["and", "or", "xor"]))
    return f.Tensor, [tensor(s, one_of(INTEGERS + [torch.bool])) for s in (sizes, broadcast(sizes))]


@operator
def where():
    sizes = shape()
    return A.where.self, [tensor(broadcast(sizes), torch.bool), tensor(sizes, one_of(ALL)),
                          tensor(broadcast(sizes), one_of(ALL))]


@operator
def reduction():
    x, keep = some(ALL), flip_coin()
    return one_of([
        (A.sum.dim_IntList, [x, dims(x), keep], {"dtype": one_of([None, torch.float32, torch.int64])}),
        (A.amax.default, [x, dims(x), keep]), (A.amin.default, [x, dims(x), keep]), (A.any.dims, [x, dims(x), keep]),
        (A.all.dim, [x, dim(x), keep]), (A.prod.dim_int, [x, dim(x), keep]), (A.prod.default, [x]),
        (A.cumsum.default, [x, dim(x)]),
    ])


@operator
def float_reduction():
    x, keep = some(FLOATS), flip_coin()
    return one_of([
        (A.mean.dim, [x, dims(x), keep]), (A._softmax.default, [x, dim(x), False]),
        (A._log_softmax.default, [x, dim(x), False]), (A.argmax.default, [x, dim(x), keep]),
        (A.argmin.default, [x, dim(x), keep]), (A.max.dim, [x, dim(x), keep]), (A.min.dim, [x, dim(x), keep]),
        (A.var.correction, [x, dims(x)], {"correction": one_of([None, 0, 1]), "keepdim": keep}),
        (A.linalg_vector_norm.default, [x, one_of([0.0, 1.0, 2.0, 3.0, float("inf")]), dims(x), keep]),
    ])


@operator
def topk():
    x = some(FLOATS + INTEGERS, low=1, empty=0)
    return A.topk.default, [x, rng.randint(0, x.shape[-1]), -1, flip_coin(), True]


@operator
def movement():
    x = some(ALL, low=1)
    order = rng.sample(range(x.dim()), x.dim())
    return one_of([
        (A.permute_copy.default, [x, order]), (A.transpose_copy.int, [x, dim(x), dim(x)]),
        (A.flip.default, [x, dims(x)]), (A.roll.default, [x, [rng.randint(-6, 6)], [dim(x)]]),
        (A.repeat.default, [x, [rng.randint(0, 2) for _ in range(x.dim() + 1)]]),
        (A.slice_copy.Tensor, [x, dim(x), one_of([None, rng.randint(-7, 7)]), rng.randint(-7, 7), rng.randint(1, 3)]),
        (A.stack.default, [[x, x], rng.randrange(-x.dim() - 1, x.dim() + 1)]), (A.view_copy.default, [x, [x.numel()]]),
        (A.unsqueeze_copy.default, [x, dim(x)]), (A.constant_pad_nd.default, [x, [rng.randint(0, 2)] * 2, 1]),
    ])


@operator
def cat():
    x = some(ALL, low=1)
    d = dim(x)
    sizes = list(x.shape)
    sizes[d] = rng.randint(0, 3)
    return A.cat.default, [[x, tensor(sizes, one_of([x.dtype, one_of(ALL)]))], d]


@operator
def gathering():
    x = some(ALL, low=1, empty=0)
    d = dim(x)
    n = x.shape[d]
    sizes = [rng.randint(1, k) for k in x.shape]
    return one_of([
        (A.gather.default, [x, d, torch.randint(0, n, sizes)]), (A.index_select.default, [x, d, torch.randint(0, n, [3])]),
        (A.select_copy.int, [x, d, rng.randrange(-n, n)]), (A.index.Tensor, [x, [torch.randint(-x.shape[0], x.shape[0], [3])]]),
    ])


@operator
def matrices():
    m, n, k, dtype = rng.randint(0, 5), rng.randint(1, 5), rng.randint(0, 5), one_of(FLOATS + INTEGERS)
    a, b = tensor([m, k], dtype, special=0), tensor([k, n], dtype, special=0)
    return one_of([(A.mm.default, [a, b]), (A.bmm.default, [a.unsqueeze(0), b.unsqueeze(0)]),
                   (A.addmm.default, [tensor(one_of([[n], [m, n]]), dtype, special=0), a, b], {"alpha": 2, "beta": 3})])


@operator
def convolution():
    n, groups, transposed, dtype = one_of([1, 2]), one_of([1, 2, 3]), rng.random() < 0.3, one_of(FLOATS)
    inner, outer = groups * rng.randint(1, 3), groups * rng.randint(1, 3)
    kernel, stride = [rng.randint(1, 3) for _ in range(n)], [rng.randint(1, 3) for _ in range(n)]
    w = tensor(([inner, outer // groups] if transposed else [outer, inner // groups]) + kernel, dtype, special=0)
    x = tensor([rng.randint(1, 2), inner] + [rng.randint(6, 8)] * n, dtype, special=0)
    more = [rng.randint(0, s - 1) for s in stride] if transposed else [0] * n
    return A.convolution.default, [x, w, one_of([None, tensor([outer], dtype, special=0)]), stride,
                                   [rng.randint(0, 2)] * n, [rng.randint(1, 2)] * n, transposed, more, groups]


@operator
def pooling():
    kernel = [rng.randint(1, 3), rng.randint(1, 3)]
    stride, pad = one_of([[], [2, 1]]), [k // 2 for k in kernel]
    x, ceil = tensor([2, 3, rng.randint(5, 8), rng.randint(5, 8)], one_of(FLOATS)), flip_coin()
    return one_of([(A.max_pool2d_with_indices.default, [x, kernel, stride, pad, [1, 1], ceil]),
                   (A.avg_pool2d.default, [x, kernel, stride, pad, ceil, flip_coin(), one_of([None, 3])]),
                   (A._adaptive_avg_pool2d.default, [x, [rng.randint(1, 6), rng.randint(1, 6)]])])


@operator
def normalization():
    sizes, dtype = shape(1, 4, empty=0), one_of(FLOATS)
    k = rng.randint(1, len(sizes))
    weight = one_of([None, tensor(sizes[-k:], dtype, special=0)])
    return A.native_layer_norm.default, [tensor(sizes, dtype, special=0), sizes[-k:], weight, None, 1e-5]


@operator
def resampling():
    x, corners = tensor([1, 2, rng.randint(1, 6), rng.randint(1, 6)], torch.float32, special=0), flip_coin()
    size = [rng.randint(1, 9), rng.randint(1, 9)]
    return one_of([(A.upsample_bilinear2d.vec, [x, size, corners, None]), (A.upsample_nearest2d.vec, [x, size, None]),
                   (A._upsample_bilinear2d_aa.default, [x, size, corners, None, None])])


def tensors(v):
    if isinstance(v, torch.Tensor):
        return [v]
    return [t for u in v for t in tensors(u)] if isinstance(v, (list, tuple)) else []


class Call(torch.nn.Module):
    def __init__(self, overload, args, kwargs):
        super().__init__()
        self.overload, self.args, self.kwargs = overload, args, kwargs

    def forward(self, *given):
        rest = iter(given)

        def filled(v):
            if isinstance(v, torch.Tensor):
                return next(rest)
            return [filled(u) for u in v] if tensors(v) else v

        return self.overload(*[filled(v) for v in self.args], **self.kwargs)


def partitioners(delegate):
    if delegate == "xnnpack":
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
        return [XnnpackPartitioner()]
    if delegate == "vulkan":
        from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
        return [VulkanPartitioner()]
    return []


def stored(t):
    t = t.detach().contiguous()
    return (t.view(torch.uint16) if t.dtype == torch.bfloat16 else t).numpy()


def write_case(folder, name, overload, args, kwargs, delegate):
    inputs = tensors(args)
    call = Call(overload, args, kwargs)
    wanted = tensors(call(*[t.clone() for t in inputs]))
    config = EdgeCompileConfig(_check_ir_validity=False, preserve_ops=[] if delegate else [overload])
    program = to_edge_transform_and_lower(torch.export.export(call, tuple(inputs), strict=False),
                                          partitioner=partitioners(delegate), compile_config=config).to_executorch()
    for part, values in (("inputs", inputs), ("outputs", wanted)):
        (folder / part).mkdir(parents=True, exist_ok=True)
        for i, t in enumerate(values):
            np.save(folder / part / f"{i}.npy", stored(t))
    (folder / "model.pte").write_bytes(program.buffer)
    types = {t.dtype for t in inputs + wanted}
    loose = 2e-2 if torch.bfloat16 in types else 4e-3 if torch.float16 in types else 0
    brain = {part: [i for i, t in enumerate(values) if t.dtype == torch.bfloat16]
             for part, values in (("bf16_inputs", inputs), ("bf16_outputs", wanted))}
    case = {"name": name, "rtol": loose or 1e-4, "atol": loose or 2e-5, "ops": [str(overload)], **brain}
    (folder / "case.json").write_text(json.dumps(case))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smelt", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--ops", help="of " + ",".join(OPERATORS))
    parser.add_argument("--delegate", choices=["xnnpack", "vulkan"])
    parser.add_argument("--keep")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    rng.seed(options.seed)
    torch.manual_seed(options.seed)
    names = options.ops.split(",") if options.ops else list(OPERATORS)
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(options.keep or temporary)
        refused = 0
        for i in range(options.count):
            name = names[i % len(names)]
            overload, args, *kwargs = OPERATORS[name]()
            try:
                write_case(root / f"{i:04}_{name}", name, overload, args, kwargs[0] if kwargs else {}, options.delegate)
            except Exception:  # what PyTorch or the exporter does not take
                refused += 1
        print(f"{options.count - refused} programs, {refused} calls that PyTorch or the exporter refuses", flush=True)
        status = 0
        for backend in ("reference", "cpu"):
            status |= subprocess.run([options.smelt, "verify", str(root), "--backend", backend]).returncode
    sys.exit(1 if status else 0)


if __name__ == "__main__":
    main()
