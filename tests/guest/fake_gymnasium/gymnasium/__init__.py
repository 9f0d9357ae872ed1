"""Of gymnasium what the guest hooks into, in the same modules: classes of environments, wrapped and vectorised."""

from gymnasium import vector
from gymnasium.core import Env, Wrapper

__all__ = ["Env", "Wrapper", "vector"]
