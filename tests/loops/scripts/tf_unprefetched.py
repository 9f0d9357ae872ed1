"""TensorFlow: a pipeline that works no time ahead of the step: its options keep TensorFlow from adding a prefetch.

Its function computes in Python, one call at a time whatever is asked for, so that only working ahead helps.
"""

import time

import numpy as np
import tensorflow as tf
from tf_parts import BATCH, FEATURES, SAMPLES, SLOW, WAIT_S, model


def load(index):
    """Return one sample, for which a CPU is needed."""
    until = time.thread_time() + (WAIT_S if SLOW else 0.0)
    while time.thread_time() < until:
        pass
    return np.full(FEATURES, float(index) / SAMPLES, np.float32)


def sample(index):
    x = tf.py_function(load, [index], tf.float32)
    x.set_shape((FEATURES,))
    return x, index % 10


if __name__ == "__main__":
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    data = tf.data.Dataset.range(SAMPLES).map(sample)
    data = data.shuffle(BATCH)
    data = data.batch(BATCH).with_options(options)
    net = model()
    for _ in range(3):
        for x, _y in data:
            net(x)
            time.sleep(0.030)  # stands for a step on a device
