"""Several environments that are stepped one after the other."""


class VectorEnv:
    def step(self, actions):
        raise NotImplementedError

    @property
    def unwrapped(self):
        return self


class SyncVectorEnv(VectorEnv):
    def __init__(self, env_fns):
        self.envs = [make() for make in env_fns]
        self.num_envs = len(self.envs)

    def step(self, actions):
        return [env.step(action) for env, action in zip(self.envs, actions)]  # noqa: B905 - there is no `strict` in 3.8
