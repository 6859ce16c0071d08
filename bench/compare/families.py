"""Families of networks by name, and what a race says of each."""

import math
import re

# The first line that matches a name says what kind of network it is; LAST where none does.
KINDS = [
    ("decoder step", r"(_step|_decode|^decoder)"),
    ("trees", r"(trees|boosted)"),
    ("recurrent", r"^(lstm|gru|rnn)"),
    ("temporal", r"^(tcn|ds_cnn|kws|wavenet)"),
    ("speech", r"^(whisper|wav2vec|hubert)"),
    ("transformer", r"^(bert|distilbert|minilm|gpt|t5|llama|encoder|vit|deit|swin|maxvit|mobilevit|mixer)"),
    ("detection", r"(ssd|retina|yolo|detect|fcos)"),
    ("segmentation", r"(deeplab|lraspp|unet|fcn|segment)"),
    ("super-resolution", r"(edsr|espcn|srgan)"),
]
LAST = "convolutional"
PRECISIONS = [
    ("4-bit weights", r"(_q4|_4bit|_int4)"),
    ("dynamic", r"_dynamic"),
    ("int8", r"_(qdq|int8)"),
]
FIGURES = ("ratio", "first", "memory", "bound", "base")


def kind_of(name):
    return next((kind for kind, pattern in KINDS if re.search(pattern, name)), LAST)


def precision_of(name):
    return next((precision for precision, pattern in PRECISIONS if re.search(pattern, name)), "float")


def geomean(values):
    """Of those that are given and above zero; None without any."""
    logs = [math.log(v) for v in values if v]
    return math.exp(sum(logs) / len(logs)) if logs else None


def summary(networks):
    """Rows of (title, count, geometric mean of each figure): each kind, each precision if there are several, all."""
    rows = []
    for group in ("kind", "precision"):
        titles = sorted({n[group] for n in networks})
        if len(titles) > 1:
            rows += [(title, [n for n in networks if n[group] == title]) for title in titles]
    rows.append(("all", networks))
    return [(title, len(some), [geomean(n.get(key) for n in some) for key in FIGURES]) for title, some in rows]


def worst(networks, count=10):
    """The networks of the highest ratios, highest first."""
    return sorted((n for n in networks if n["ratio"] is not None), key=lambda n: -n["ratio"])[:count]
