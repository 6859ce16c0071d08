#!/usr/bin/env python3
"""Times of 3x3 convolutions: direct, Winograd's F(2x2, 3x3) and F(4x4, 3x3). Needs onnx and numpy.

    winograd.py [--int8|--bf16] [--smelt FILE] [--sizes 14,28] [--channels 64x64,128x32] [--dilation 2] [--groups 4]

Prints a line a shape: size of the image, channels in and out (of a group), microseconds of the three kernels in float32, --int8 of
bytes, or --bf16 in bfloat16, where F(4x4, 3x3) stays one of float32. Each shape is a network of so many convolutions with
weights of their own that F(4x4, 3x3)'s filters exceed the level-3 cache, or those of bytes the level-2 cache, as real
networks' do. The estimates of winograd_choice.cc and winograd_choice_i8.h are fitted to these figures. Pin it: taskset -c
1 winograd.py.
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).parent.parent.parent
SIZES = "4,7,8,10,14,17,28,56,112"
CHANNELS = "3x32,8x8,16x16,16x64,24x24,32x32,32x128,48x48,64x8,64x64,96x96,128x32,128x128,256x64,256x256,384x384,512x512"
FILTER_BYTES = 48 << 20
BYTES = 16 << 20


def network(size, c_in, c_out, dilation, groups):
    rng = np.random.default_rng(0)
    copies = max(4, min(128, FILTER_BYTES // (36 * 4 * c_in * c_out * groups)))
    nodes, weights, outputs = [], [], []
    for i in range(copies):
        filters = rng.standard_normal((groups * c_out, c_in, 3, 3)).astype(np.float32)
        bias = np.zeros(groups * c_out, np.float32)
        weights += [numpy_helper.from_array(filters, f"w{i}"), numpy_helper.from_array(bias, f"b{i}")]
        taps = {"pads": [dilation] * 4, "dilations": [dilation] * 2, "group": groups}
        nodes.append(helper.make_node("Conv", ["x", f"w{i}", f"b{i}"], [f"y{i}"], **taps))
        nodes.append(helper.make_node("GlobalMaxPool", [f"y{i}"], [f"z{i}"]))
        outputs.append(helper.make_tensor_value_info(f"z{i}", TensorProto.FLOAT, [1, groups * c_out, 1, 1]))
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, groups * c_in, size, size])
    graph = helper.make_graph(nodes, "convolutions", [image], outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def byte_network(size, c_in, c_out):
    """As network(), of uint8 images and int8 filters between quantizations."""
    rng = np.random.default_rng(0)
    copies = max(4, min(64, BYTES // (9 * c_in * c_out)))

    def constant(name, array):
        weights.append(numpy_helper.from_array(array, name))
        return name

    weights, nodes, outputs = [], [], []
    scale, zero = constant("scale", np.float32(0.02)), constant("zero", np.uint8(120))
    filter_scale, filter_zero = constant("filter_scale", np.float32(0.01)), constant("filter_zero", np.int8(0))
    wide = constant("wide_scale", np.float32(0.02 * 12 * np.sqrt(9 * c_in) / 120))
    nodes += [
        helper.make_node("QuantizeLinear", ["x", scale, zero], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", scale, zero], ["xr"]),
    ]
    for i in range(copies):
        filters = np.clip(rng.standard_normal((c_out, c_in, 3, 3)) * 30, -127, 127).astype(np.int8)
        w = constant(f"w{i}", filters)
        nodes += [
            helper.make_node("DequantizeLinear", [w, filter_scale, filter_zero], [f"wr{i}"]),
            helper.make_node("Conv", ["xr", f"wr{i}"], [f"y{i}"], pads=[1] * 4),
            helper.make_node("QuantizeLinear", [f"y{i}", wide, zero], [f"yq{i}"]),
            helper.make_node("DequantizeLinear", [f"yq{i}", wide, zero], [f"yr{i}"]),
            helper.make_node("GlobalMaxPool", [f"yr{i}"], [f"z{i}"]),
        ]
        outputs.append(helper.make_tensor_value_info(f"z{i}", TensorProto.FLOAT, [1, c_out, 1, 1]))
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, c_in, size, size])
    graph = helper.make_graph(nodes, "convolutions", [image], outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def microseconds(smelt, model, folder, setting, options):
    """Mean of the convolutions."""
    profile = folder / "profile.json"
    command = [smelt, "bench", model, "--threads", "1", "--seconds", "0.05", "--warmup", "1", "--profile", profile, *options]
    environment = os.environ | {"SMELT_CPU_WINOGRAD": setting}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    times = [n["micros_per_run"] for n in json.loads(profile.read_text()) if n["kernel"].startswith("conv_")]
    return sum(times) / len(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smelt", default=ROOT / "build/release/bin/smelt")
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--channels", default=CHANNELS)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--int8", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--dilation", type=int, default=1, help="of the float32 ones")
    parser.add_argument("--groups", type=int, default=1, help="of the float32 ones; --channels are of one group")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = folder / "convolutions.onnx"
        for size in map(int, args.sizes.split(",")):
            for channels in args.channels.split(","):
                c_in, c_out = map(int, channels.split("x"))
                floats = (args.dilation, args.groups)
                made = byte_network(size, c_in, c_out) if args.int8 else network(size, c_in, c_out, *floats)
                onnx.save(made, model)
                settings, options = ("0", "always2", "always4"), ["--bf16"] * args.bf16
                rounds = range(args.rounds)
                times = [[microseconds(args.smelt, model, folder, s, options) for s in settings] for _ in rounds]
                print(size, c_in, c_out, *(f"{min(t):.4g}" for t in zip(*times, strict=True)), flush=True)


if __name__ == "__main__":
    main()
