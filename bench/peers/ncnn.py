#!/usr/bin/env python3
"""Compares smelt with ncnn (pip install ncnn onnx) on Vulkan: MobileNetV2 1.0/224 in float32 on the same device.

Writes the network with random weights as .onnx and as ncnn's .param and .bin, checks that both give the same result,
and runs them in turns. VK_ICD_FILENAMES chooses the driver."""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path = [p for p in sys.path if pathlib.Path(p or ".").resolve() != pathlib.Path(__file__).resolve().parent]
import ncnn  # noqa: E402
import onnx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

BLOCKS = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]


class Nets:
    """One network built layer by layer in both formats."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights, self.lines, self.bin = [], [], ["Input in0 0 1 x 0=224 1=224 2=3"], []
        self.count = 0

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def constant(self, array):
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def conv(self, x, c_in, c_out, kernel, stride, groups=1, clip=True):
        y, pad = self.name(), kernel // 2
        w = self.rng.standard_normal((c_out, c_in // groups, kernel, kernel)) * (2 / (c_in // groups * kernel**2))**0.5
        b = self.rng.standard_normal(c_out) * 0.1
        raw = y + "r" if clip else y
        self.nodes.append(helper.make_node("Conv", [x, self.constant(w), self.constant(b)], [raw], group=groups,
                                           kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4))
        if clip:
            self.nodes.append(helper.make_node("Clip", [raw, "zero", "six"], [y]))
        kind = "ConvolutionDepthWise" if groups > 1 else "Convolution"
        self.lines.append(f"{kind} {y} 1 1 {x} {y} 0={c_out} 1={kernel} 3={stride} 4={pad} 5=1 6={w.size}"
                          + (f" 7={groups}" if groups > 1 else "") + (" 9=3 -23310=2,0,6" if clip else ""))
        self.bin += [np.zeros(1, np.uint32), w.astype(np.float32), b.astype(np.float32)]
        return y

    def block(self, x, c_in, expand, c_out, stride):
        residual = stride == 1 and c_in == c_out
        skip = x
        if residual:
            a, skip = self.name(), self.name()
            self.lines.append(f"Split {a}s 1 2 {x} {a} {skip}")
            self.nodes += [helper.make_node("Identity", [x], [a]), helper.make_node("Identity", [x], [skip])]
            x = a
        wide = c_in * expand
        y = self.conv(x, c_in, wide, 1, 1) if expand > 1 else x
        y = self.conv(y, wide, wide, 3, stride, wide)
        y = self.conv(y, wide, c_out, 1, 1, clip=False)
        if not residual:
            return y
        z = self.name()
        self.lines.append(f"BinaryOp {z} 2 1 {skip} {y} {z} 0=0")
        self.nodes.append(helper.make_node("Add", [skip, y], [z]))
        return z

    def build(self):
        x = self.conv("x", 3, 32, 3, 2)
        c = 32
        for expand, c_out, repeats, stride in BLOCKS:
            for i in range(repeats):
                x = self.block(x, c, expand, c_out, stride if i == 0 else 1)
                c = c_out
        x = self.conv(x, c, 1280, 1, 1)
        w, b = self.rng.standard_normal((1000, 1280)) * 1280**-0.5, self.rng.standard_normal(1000) * 0.1
        self.nodes += [helper.make_node("GlobalAveragePool", [x], ["pool"]), helper.make_node("Flatten", ["pool"], ["f"]),
                       helper.make_node("Gemm", ["f", self.constant(w), self.constant(b)], ["y"], transB=1)]
        self.lines += [f"Pooling pool 1 1 {x} pool 0=1 4=1",
                       f"InnerProduct y 1 1 pool y 0=1000 1=1 2={w.size}"]
        self.bin += [np.zeros(1, np.uint32), w.astype(np.float32), b.astype(np.float32)]

    def save(self, folder):
        blobs = {n for line in self.lines for n in self.outputs(line)}
        (folder / "net.param").write_text("\n".join(["7767517", f"{len(self.lines)} {len(blobs)}"] + self.lines) + "\n")
        (folder / "net.bin").write_bytes(b"".join(a.tobytes() for a in self.bin))
        self.weights += [numpy_helper.from_array(np.float32(0), "zero"), numpy_helper.from_array(np.float32(6), "six")]
        graph = helper.make_graph(self.nodes, "mobilenet_v2",
                                  [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 224, 224])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1000])], self.weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8),
                  folder / "net.onnx")

    @staticmethod
    def outputs(line):
        words = line.split()
        inputs, outputs = int(words[2]), int(words[3])
        return words[4 + inputs:4 + inputs + outputs]


class Ncnn:
    def __init__(self, folder, x):
        self.net = ncnn.Net()
        self.net.opt.use_vulkan_compute = True
        for option in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage"):
            setattr(self.net.opt, option, False)
        if self.net.load_param(str(folder / "net.param")) or self.net.load_model(str(folder / "net.bin")):
            raise RuntimeError("ncnn does not load the network")
        self.x = ncnn.Mat(x[0])

    def run(self):
        e = self.net.create_extractor()
        e.input("x", self.x)
        return np.array(e.extract("y")[1])


def smelt_times(binary, model, runs):
    out = subprocess.run([binary, "bench", model, "--backend", "vulkan", "--runs", str(runs), "--warmup", "1", "--json"],
                         capture_output=True, text=True, check=True).stdout
    return json.loads(out)["median_ms"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--smelt", default="build/release/bin/smelt")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--runs", type=int, default=3, help="in each round")
    p.add_argument("--keep", type=pathlib.Path, help="write the networks to this folder and keep them")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = a.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        nets = Nets()
        nets.build()
        nets.save(folder)
        x = np.random.default_rng(1).standard_normal((1, 3, 224, 224)).astype(np.float32)
        np.save(folder / "x.npy", x)
        peer = Ncnn(folder, x)
        subprocess.run([a.smelt, "run", folder / "net.onnx", "--backend", "vulkan", "--input", f"x={folder / 'x.npy'}",
                        "--output-dir", folder / "out"], check=True, capture_output=True)
        ours = np.load(next((folder / "out").glob("*.npy"))).ravel()
        theirs = peer.run().ravel()
        print(f"largest difference {np.abs(ours - theirs).max():.2e} of {np.abs(theirs).max():.2e}")
        ratios = []
        for _ in range(a.rounds):
            ms = smelt_times(a.smelt, folder / "net.onnx", a.runs)
            times = []
            for _ in range(a.runs):
                start = time.perf_counter()
                peer.run()
                times.append((time.perf_counter() - start) * 1000)
            other = statistics.median(times)
            ratios.append(other / ms)
            print(f"smelt {ms:.1f} ms, ncnn {other:.1f} ms: {ratios[-1]:.2f}")
        print(f"ncnn / smelt, median of {a.rounds}: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
