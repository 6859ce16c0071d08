#!/usr/bin/env python3
"""Trains a small convolutional network on the UCI handwritten digits that scikit-learn carries and writes it as TFLite.

    pip install tensorflow-cpu scikit-learn pillow
    python3 train.py            # writes digits.tflite, digits_int8.tflite, weights.npz, labels.txt and one PNG a digit

The network takes [1, 8, 8, 1]: float32 in [0, 1], or int8 with scale 1/255 and zero point -128. The PNGs are digits of the
test half, four times enlarged, white on black. to_onnx.py and to_executorch.py write the network of weights.npz in their formats.
"""
from pathlib import Path

import numpy as np
import tensorflow as tf
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HERE = Path(__file__).resolve().parent
NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def network():
    return tf.keras.Sequential([
        tf.keras.layers.Input((8, 8, 1), batch_size=1),
        tf.keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
        tf.keras.layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
        tf.keras.layers.DepthwiseConv2D(3, padding="same", activation="relu"),
        tf.keras.layers.Conv2D(32, 1, activation="relu"),
        tf.keras.layers.GlobalAveragePooling2D(),
        tf.keras.layers.Dense(10, activation="softmax"),
    ])


def main():
    tf.keras.utils.set_random_seed(1)
    digits = load_digits()
    pixels = np.clip(np.round(digits.images * 255 / 16), 0, 255).astype(np.uint8)
    x_train, x_test, y_train, y_test = train_test_split(pixels, digits.target, test_size=0.25, random_state=1, stratify=digits.target)
    as_input = lambda p: (p.astype(np.float32) / 255)[..., None]

    trained = tf.keras.Sequential([tf.keras.layers.Input((8, 8, 1)), *network().layers])
    trained.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    trained.fit(as_input(x_train), y_train, epochs=80, batch_size=32, verbose=0)
    print("test accuracy", trained.evaluate(as_input(x_test), y_test, verbose=0)[1])

    np.savez(HERE / "weights.npz", *trained.get_weights())
    fixed = network()
    fixed.set_weights(trained.get_weights())
    convert = tf.lite.TFLiteConverter.from_keras_model(fixed)
    (HERE / "digits.tflite").write_bytes(convert.convert())
    convert = tf.lite.TFLiteConverter.from_keras_model(fixed)
    convert.optimizations = [tf.lite.Optimize.DEFAULT]
    convert.representative_dataset = lambda: ([as_input(x_train[i:i + 1])] for i in range(300))
    convert.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    convert.inference_input_type = convert.inference_output_type = tf.int8
    (HERE / "digits_int8.tflite").write_bytes(convert.convert())

    (HERE / "labels.txt").write_text("\n".join(NAMES) + "\n")
    for digit, name in enumerate(NAMES):
        shown = x_test[y_test == digit]
        sure = trained.predict(as_input(shown), verbose=0)[:, digit].argmax()
        Image.fromarray(shown[sure]).resize((32, 32), Image.NEAREST).save(HERE / f"{name}.png")


if __name__ == "__main__":
    main()
