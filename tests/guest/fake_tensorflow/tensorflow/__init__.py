"""A TensorFlow in pure Python, of the shape that the guest hooks into: one pipeline, its iterators and their model."""

from tensorflow.python.data.experimental.ops import iterator_model_ops  # noqa: F401 - as the real one does
from tensorflow.python.data.ops import dataset_ops, iterator_ops  # noqa: F401
from tensorflow.python.eager import context  # noqa: F401
from tensorflow.python.framework import errors_impl  # noqa: F401

__version__ = "2.99"
