"""Many at once."""

from gymnasium.vector.vector_env import SyncVectorEnv, VectorEnv

__all__ = ["SyncVectorEnv", "VectorEnv"]
