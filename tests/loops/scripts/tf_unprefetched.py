"""TensorFlow: a pipeline that works no time ahead of the step: its options keep TensorFlow from adding a prefetch."""

import time

import tensorflow as tf
from tf_parts import BATCH, SAMPLES, model, sample

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
