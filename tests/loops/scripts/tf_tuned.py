"""TensorFlow: a function that computes in TensorFlow's own operations, written without `num_parallel_calls`.

It has no side effects, so TensorFlow makes it parallel by itself, and there is nothing to advise.
"""

import tensorflow as tf
from tf_parts import BATCH, SAMPLES, model


def sample(index):
    x = tf.random.stateless_uniform((20_000,), tf.stack([index, 1]))
    return tf.sort(x)[:64], index % 10


if __name__ == "__main__":
    data = tf.data.Dataset.range(SAMPLES).map(sample).batch(BATCH)
    net = model()
    net.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    net.fit(data, epochs=3, verbose=0)
