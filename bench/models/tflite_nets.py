#!/usr/bin/env python3
"""Writes networks of real size with random weights as .tflite files: float32, int8 and dynamic range.

pip install tensorflow-cpu
python3 tflite_nets.py FOLDER [NAME...]      # all networks, or those named; NAME_f32, NAME_int8 and NAME_dynamic
"""

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import applications, layers
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2


def application(name, size=224):
    return lambda: getattr(applications, name)(weights=None, input_shape=(size, size, 3))


def conv(x, filters, kernel=3, **settings):
    return layers.Conv2D(filters, kernel, padding="same", activation="relu", **settings)(x)


def unet():
    x = image = keras.Input((256, 256, 3))
    skips = []
    for filters in (32, 64, 128, 256):
        x = conv(conv(x, filters), filters)
        skips.append(x)
        x = layers.MaxPooling2D()(x)
    x = conv(conv(x, 512), 512)
    for skip in reversed(skips):
        filters = skip.shape[-1]
        x = layers.Conv2DTranspose(filters, 2, strides=2)(x)
        x = conv(conv(layers.Concatenate()([x, skip]), filters), filters)
    return keras.Model(image, layers.Conv2D(2, 1)(x))


def edsr():
    """Super-resolution by two: sixteen residual blocks and a depth-to-space."""
    image = keras.Input((96, 96, 3))
    x = first = layers.Conv2D(64, 3, padding="same")(image)
    for _ in range(16):
        x = layers.Add()([x, layers.Conv2D(64, 3, padding="same")(conv(x, 64))])
    x = layers.Add()([first, layers.Conv2D(64, 3, padding="same")(x)])
    x = layers.Lambda(lambda v: tf.nn.depth_to_space(v, 2))(layers.Conv2D(256, 3, padding="same")(x))
    return keras.Model(image, layers.Conv2D(3, 3, padding="same")(x))


def deeplab():
    """A residual encoder of output stride 8 on 257x257 and a head of rates 6, 12 and 18."""
    image = keras.Input((256, 256, 3))
    x = conv(conv(image, 32, strides=2), 64, strides=2)
    x = conv(conv(x, 128, strides=2), 128)
    for _ in range(4):
        x = layers.Add()([x, conv(conv(x, 128), 128)])
    branches = [conv(x, 128, 1)] + [conv(x, 128, dilation_rate=rate) for rate in (6, 12, 18)]
    x = conv(layers.Concatenate()(branches), 128, 1)
    return keras.Model(image, layers.UpSampling2D(8, interpolation="bilinear")(layers.Conv2D(21, 1)(x)))


def ds_cnn():
    """Keyword spotting on 49 frames of 10 coefficients: depthwise separable convolutions."""
    x = image = keras.Input((49, 10, 1))
    x = conv(x, 64, (10, 4), strides=2)
    for _ in range(4):
        x = conv(layers.DepthwiseConv2D(3, padding="same", activation="relu")(x), 64, 1)
    return keras.Model(image, layers.Dense(12, activation="softmax")(layers.GlobalAveragePooling2D()(x)))


def encoder():
    """Four layers of a transformer encoder, width 256, on 128 tokens that are embedded already."""
    x = tokens = keras.Input((128, 256))
    for _ in range(4):
        y = layers.MultiHeadAttention(4, 64)(x, x)
        x = layers.LayerNormalization()(layers.Add()([x, y]))
        y = layers.Dense(256)(layers.Dense(1024, activation="gelu")(x))
        x = layers.LayerNormalization()(layers.Add()([x, y]))
    return keras.Model(tokens, x)


def tcn():
    """Causal dilated convolutions over 1,024 samples of 32 channels."""
    x = signal = keras.Input((1024, 32))
    for level in range(8):
        y = layers.Conv1D(64, 3, padding="causal", dilation_rate=2**level, activation="relu")(x)
        x = y if level == 0 else layers.Add()([x, y])
    return keras.Model(signal, layers.Dense(10)(x))


def ssd():
    """MobileNetV2 on 320x320 and SSD's heads on two feature maps, before non-maximum suppression."""
    backbone = applications.MobileNetV2(weights=None, include_top=False, input_shape=(320, 320, 3))
    maps = [backbone.get_layer("block_13_expand_relu").output, backbone.output]
    maps.append(conv(conv(maps[-1], 256, 1), 512, strides=2))
    found = []
    for columns in (4, 91):
        heads = [layers.SeparableConv2D(6 * columns, 3, padding="same")(x) for x in maps]
        found.append(layers.Concatenate(axis=1)([layers.Reshape((-1, columns))(y) for y in heads]))
    return keras.Model(backbone.input, [found[0], layers.Activation("sigmoid")(found[1])])


def vit_tiny():
    """DeiT-tiny's sizes: 12 layers of width 192 on 196 patches."""
    image = keras.Input((224, 224, 3))
    x = layers.Reshape((196, 192))(layers.Conv2D(192, 16, strides=16)(image))
    for _ in range(12):
        y = layers.LayerNormalization()(x)
        x = layers.Add()([x, layers.MultiHeadAttention(3, 64)(y, y)])
        y = layers.Dense(768, activation="gelu")(layers.LayerNormalization()(x))
        x = layers.Add()([x, layers.Dense(192)(y)])
    return keras.Model(image, layers.Dense(1000)(layers.GlobalAveragePooling1D()(x)))


def lstm():
    """Two recurrent layers over 50 frames of 80 features, each step a node."""
    x = frames = keras.Input((50, 80))
    for _ in range(2):
        x = layers.LSTM(128, return_sequences=True, unroll=True)(x)
    return keras.Model(frames, layers.Dense(40)(x))


NETWORKS = {
    "mobilenet_v2": application("MobileNetV2"),
    "mobilenet_v3": application("MobileNetV3Large"),
    "efficientnet_b0": application("EfficientNetB0"),
    "resnet50": application("ResNet50"),
    "inception_v3": application("InceptionV3", 299),
    "densenet121": application("DenseNet121"),
    "unet": unet,
    "edsr": edsr,
    "deeplab": deeplab,
    "ds_cnn": ds_cnn,
    "encoder": encoder,
    "tcn": tcn,
    "nasnet_mobile": application("NASNetMobile"),
    "xception": application("Xception", 299),
    "ssd_mobilenet_v2": ssd,
    "vit_tiny": vit_tiny,
    "lstm": lstm,
}


def convert(model, kind):
    shape = [1, *model.inputs[0].shape[1:]]
    function = tf.function(model).get_concrete_function(tf.TensorSpec(shape, tf.float32))
    converter = tf.lite.TFLiteConverter.from_concrete_functions([convert_variables_to_constants_v2(function)])
    random = np.random.default_rng(1)
    if kind != "f32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if kind == "int8":
        converter.representative_dataset = lambda: ([random.random(shape, np.float32)] for _ in range(2))
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.int8
    return converter.convert()


def main():
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or NETWORKS:
        keras.utils.set_random_seed(1)
        model = NETWORKS[name]()
        for kind in ("f32", "int8", "dynamic"):
            (folder / f"{name}_{kind}.tflite").write_bytes(convert(model, kind))


if __name__ == "__main__":
    main()
