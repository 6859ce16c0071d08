#!/usr/bin/env python3
"""Classifies digits from Parquet to Parquet with Ray Data, on a local cluster of two actors.

python examples/ray_batch.py INPUT.parquet OUTPUT_FOLDER

INPUT has columns `id` and `image`, a list of 64 numbers from 0 to 1: 8 rows of 8 pixels. OUTPUT has `id`, `digit`,
`score` and `error`, the reason why a row has no digit (-1). An actor that dies is started again and its rows run again.
"""

import sys
from pathlib import Path

import numpy as np
import ray
import ray.data
from smelt.ray import Predictor

MODEL = Path(__file__).resolve().parent / "digits" / "digits.onnx"


def pixels(batch):
    """Images of the model's shape; rows that are no images stay as they are, for the model to refuse."""
    rows = [np.asarray(row, np.float32) for row in batch["image"]]
    images = np.empty(len(rows), object)
    images[:] = [row.reshape(1, 8, 8) if row.size == 64 else row for row in rows]
    return {"id": batch["id"], "image": images}


class Classifier(Predictor):
    """The likeliest digit of each image."""

    def __call__(self, batch):
        out = super().__call__(pixels(batch))
        good = out["error"] == ""
        scores = out["scores"]
        return {
            "id": out["id"],
            "digit": np.where(good, scores.argmax(axis=1), -1),
            "score": np.where(good, scores.max(axis=1), 0),
            "error": out["error"],
        }


def main(source, target, actors=2):
    """Classifies the rows of `source` and writes a folder `target`."""
    rows = ray.data.read_parquet(source).repartition(target_num_rows_per_block=1024)  # work for every actor
    rows.map_batches(
        Classifier,
        fn_constructor_kwargs={"model": str(MODEL)},
        compute=ray.data.ActorPoolStrategy(size=actors),
        num_cpus=1,
        batch_size=256,
        batch_format="numpy",
    ).write_parquet(target)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    ray.init(num_cpus=4, include_dashboard=False)  # two for the actors, two to read and write
    main(*sys.argv[1:])
