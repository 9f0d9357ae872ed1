"""The random states of this process that everybody shares."""

import pickle
import random
import sys


def randomness():
    """Return the states of torch's default generator, of `random` and, where it is loaded, of numpy, by their names."""
    states = {"random": random.getstate()}
    torch_state = getattr(sys.modules["torch"], "get_rng_state", None)
    if torch_state is not None:
        states["torch"] = torch_state().tolist()
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        states["numpy"] = pickle.dumps(numpy.get_state(legacy=False))
    return states
