#!/usr/bin/env python3
"""Rows a second of Ray actors that hold a smelt.ray.Predictor: one, two, and one with onnxruntime in its place.

python bench/python/ray_actors.py MODEL.onnx [ROWS [ROWS_OF_A_BATCH]]

Needs ray and onnxruntime; float32 inputs, first dimension 1. Actors that do nothing show what Ray itself takes.
"""

import os
import sys
import time

import numpy as np
import onnxruntime
import ray
from smelt.ray import Predictor


class Idle:
    """Takes batches and does nothing."""

    def __init__(self, model):
        pass

    def __call__(self, batch):
        return batch


class Peer:
    """What smelt.ray.Predictor does with good rows, by onnxruntime on one thread."""

    def __init__(self, model):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.name = self.session.get_inputs()[0].name
        self.outputs = [o.name for o in self.session.get_outputs()]

    def __call__(self, batch):
        rows = [self.session.run(None, {self.name: row[None]}) for row in batch[self.name]]
        return dict(batch) | {n: np.stack([row[i][0] for row in rows]) for i, n in enumerate(self.outputs)}


def actor_of(kind):
    """A Ray actor class that runs batches and tells how much of the model's file lies in its memory."""

    @ray.remote(num_cpus=1)
    class Actor:
        def __init__(self, model):
            self.model, self.predictor = model, kind(model)

        def run(self, batch):
            self.predictor(batch)
            return len(next(iter(batch.values())))

        def weights(self):
            """Proportional set size of the mapped file, in MB."""
            total, ours = 0, False
            with open(f"/proc/{os.getpid()}/smaps", encoding="utf-8") as maps:
                for line in maps:
                    if "-" in line.split(" ", 1)[0]:
                        ours = self.model in line
                    elif ours and line.startswith("Pss:"):
                        total += int(line.split()[1])
            return total / 1000

    return Actor


def rows_per_second(actors, batch, count):
    """Best of three rounds, in which every actor gets its share of `count` batches at once."""
    best = 0.0
    for _ in range(3):
        begin = time.perf_counter()
        tasks = [actors[i % len(actors)].run.remote(batch) for i in range(count)]
        best = max(best, sum(ray.get(tasks)) / (time.perf_counter() - begin))
    return best


def main():
    model, rows, size = (
        os.path.abspath(sys.argv[1]),
        *(int(a) for a in (*sys.argv[2:], *(320, 64)[len(sys.argv) - 2 :])),
    )
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="error")
    port = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).get_inputs()[0]
    data = np.random.default_rng(0).random((size, *port.shape[1:]), np.float32)
    batch = ray.put({port.name: data})
    figures = {}
    kinds = (
        ("smelt", Predictor, 1),
        ("smelt", Predictor, 2),
        ("onnxruntime", Peer, 1),
        ("idle", Idle, 1),
        ("idle", Idle, 2),
    )
    for name, kind, count in kinds:
        actors = [actor_of(kind).remote(model) for _ in range(count)]
        ray.get([a.run.remote(batch) for a in actors])
        figures[name, count] = rows_per_second(actors, batch, rows // size)
        weights = sum(ray.get([a.weights.remote() for a in actors]))
        print(f"{name}, {count} actor{'s' * (count > 1)}: {figures[name, count]:.1f} rows/s, "
              f"{weights:.1f} MB of the file mapped in all")  # fmt: skip
        for a in actors:
            ray.kill(a)
    one = figures["smelt", 1]
    print(
        f"two actors over one: {figures['smelt', 2] / one:.2f}; over onnxruntime: {one / figures['onnxruntime', 1]:.2f}"
    )


if __name__ == "__main__":
    main()
