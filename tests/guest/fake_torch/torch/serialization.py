import pickle
from pathlib import Path


def save(obj, f):
    Path(f).write_bytes(pickle.dumps(obj))
