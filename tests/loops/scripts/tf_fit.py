"""TensorFlow: Keras's `fit` over a tf.data pipeline, with a validation each epoch."""

import tensorflow as tf
from tf_parts import BATCH, SAMPLES, model, sample


def pipeline(samples: int) -> tf.data.Dataset:
    data = tf.data.Dataset.range(samples)
    data = data.map(sample)  # planted
    return data.batch(BATCH).prefetch(tf.data.AUTOTUNE)


if __name__ == "__main__":
    net = model()
    net.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    net.fit(pipeline(SAMPLES), epochs=3, validation_data=pipeline(160), verbose=0)
