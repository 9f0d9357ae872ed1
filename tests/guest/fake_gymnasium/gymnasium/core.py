"""One environment, and what wraps one."""


class Env:
    def step(self, action):
        raise NotImplementedError

    def reset(self, *, seed=None):
        return 0, {}

    @property
    def unwrapped(self):
        return self


class Wrapper(Env):
    def __init__(self, env):
        self.env = env

    def step(self, action):
        return self.env.step(action)

    @property
    def unwrapped(self):
        return self.env.unwrapped
