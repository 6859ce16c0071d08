#!/usr/bin/env python3
"""Writes squares.onnx, a detector with a YOLO-like head, and tiles.png, a picture for it.

    pip install numpy onnx; python to_onnx.py

The network finds red, green and blue tiles of 8 x 8 pixels in a picture of 64 x 64: scores of a tile are its mean colour
less the other two. Output: [1, 4 + 3, 64], centre and size in pixels, then a score for each class.
"""

import struct
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CELLS, SIZE = 8, 8


def network():
    less_others = np.full((3, 3), -1, np.float32) + 2 * np.eye(3, dtype=np.float32)
    y, x = np.mgrid[0:CELLS, 0:CELLS].reshape(2, -1) * SIZE + SIZE / 2
    boxes = np.stack([x, y, np.full_like(x, SIZE), np.full_like(y, SIZE)])[None].astype(np.float32)
    constants = {
        "weights": less_others[:, :, None, None],
        "shape": np.array([1, 3, CELLS * CELLS]),
        "boxes": boxes,
        "zero": np.float32(0),
        "one": np.float32(1),
    }
    nodes = [
        helper.make_node("AveragePool", ["image"], ["tiles"], kernel_shape=[SIZE, SIZE], strides=[SIZE, SIZE]),
        helper.make_node("Conv", ["tiles", "weights"], ["differences"]),
        helper.make_node("Clip", ["differences", "zero", "one"], ["clipped"]),
        helper.make_node("Reshape", ["clipped", "shape"], ["scores"]),
        helper.make_node("Concat", ["boxes", "scores"], ["detections"], axis=1),
    ]
    side = CELLS * SIZE
    graph = helper.make_graph(
        nodes,
        "squares",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, side, side])],
        [helper.make_tensor_value_info("detections", TensorProto.FLOAT, [1, 7, CELLS * CELLS])],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def picture():
    pixels = np.full((64, 64, 3), 120, np.uint8)
    for row, column, colour in ((1, 2, (250, 20, 20)), (4, 6, (20, 230, 20)), (6, 1, (30, 30, 250))):
        pixels[8 * row : 8 * row + 8, 8 * column : 8 * column + 8] = colour
    return pixels


def png(pixels):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


if __name__ == "__main__":
    onnx.save(network(), "squares.onnx")
    with open("tiles.png", "wb") as f:
        f.write(png(picture()))
