"""What the loops over tf.data are made of: a pipeline whose function waits, as for a disk, and a small model."""

import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

SLOW = "slow" in sys.argv[1:]  # each sample then waits for 2 ms
SAMPLES, BATCH, FEATURES = 640, 16, 64
WAIT_S = 0.002


def load(index):
    """Return one sample; Python waits here, and another thread's Python can run meanwhile."""
    if SLOW:
        time.sleep(WAIT_S)
    return np.full(FEATURES, float(index) / SAMPLES, np.float32)


def sample(index):
    x = tf.py_function(load, [index], tf.float32)
    x.set_shape((FEATURES,))
    return x, index % 10


def model() -> tf.keras.Model:
    return tf.keras.Sequential([tf.keras.layers.Dense(512, "relu"), tf.keras.layers.Dense(10)])
