#!/usr/bin/env python3
"""Writes the network of weights.npz as ExecuTorch programs: portable operators, XNNPACK float32 and int8, Vulkan.

    pip install executorch scikit-learn
    python3 to_executorch.py    # writes digits_portable.pte, digits_xnnpack.pte, digits_xnnpack_int8.pte, digits_vulkan.pte, digits.bpte

All take float32 [1, 1, 8, 8] in [0, 1]. The bundle is the XNNPACK program with ten digits and PyTorch's answers.
"""
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
from executorch.devtools import BundledProgram
from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
from executorch.devtools.bundled_program.serialize import serialize_from_bundled_program_to_flatbuffer
from executorch.exir import to_edge_transform_and_lower
from sklearn.datasets import load_digits
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

HERE = Path(__file__).resolve().parent


class Digits(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = torch.nn.Conv2d(16, 32, 3, stride=2)
        self.depthwise = torch.nn.Conv2d(32, 32, 3, padding=1, groups=32)
        self.pointwise = torch.nn.Conv2d(32, 32, 1)
        self.dense = torch.nn.Linear(32, 10)
        w = [torch.from_numpy(v) for _, v in np.load(HERE / "weights.npz").items()]
        kernels = [w[0].permute(3, 2, 0, 1), w[2].permute(3, 2, 0, 1), w[4].permute(2, 3, 0, 1), w[6].permute(3, 2, 0, 1), w[8].T]
        with torch.no_grad():
            for layer, kernel, bias in zip(self.children(), kernels, w[1::2]):
                layer.weight.copy_(kernel)
                layer.bias.copy_(bias)

    def forward(self, image):
        x = F.relu(self.conv1(image))
        x = F.relu(self.conv2(F.pad(x, (0, 1, 0, 1))))  # Keras' "same" with stride 2 pads the far side only
        x = F.relu(self.depthwise(x))
        x = F.relu(self.pointwise(x))
        return torch.softmax(self.dense(x.mean((2, 3))), -1)


def write(name, program, *partitioners):
    lowered = to_edge_transform_and_lower(program, partitioner=list(partitioners)).to_executorch()
    (HERE / name).write_bytes(lowered.buffer)
    return lowered


def main():
    images = torch.from_numpy((load_digits().images[:300] / 16).astype(np.float32))[:, None]
    example = (images[:1],)
    with torch.no_grad():
        network = Digits().eval()
        program = torch.export.export(network, example)
        write("digits_portable.pte", program)
        lowered = write("digits_xnnpack.pte", program, XnnpackPartitioner())
        cases = [MethodTestCase((image,), (network(image),)) for image in images[:10].split(1)]
        bundle = BundledProgram(lowered, [MethodTestSuite("forward", cases)])
        (HERE / "digits.bpte").write_bytes(serialize_from_bundled_program_to_flatbuffer(bundle))
        write("digits_vulkan.pte", program, VulkanPartitioner())
        quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
        prepared = prepare_pt2e(program.module(), quantizer)
        for i in range(len(images)):
            prepared(images[i:i + 1])
        write("digits_xnnpack_int8.pte", torch.export.export(convert_pt2e(prepared), example), XnnpackPartitioner())


if __name__ == "__main__":
    main()
