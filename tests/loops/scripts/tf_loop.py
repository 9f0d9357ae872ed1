"""TensorFlow: a loop of one's own over a tf.data pipeline."""

import tensorflow as tf
from tf_parts import BATCH, SAMPLES, model, sample

if __name__ == "__main__":
    data = tf.data.Dataset.range(SAMPLES)
    data = data.shuffle(SAMPLES)
    data = data.map(sample)  # planted
    data = data.batch(BATCH)
    net = model()
    optimizer = tf.keras.optimizers.SGD(0.01)
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, net(x))
        weights = net.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    for _ in range(3):
        for x, y in data:
            step(x, y)
