_pre, _post = [], []


class _Handle:
    def __init__(self, hooks, hook):
        self.remove = lambda: hooks.remove(hook)


def register_optimizer_step_pre_hook(hook):
    _pre.append(hook)
    return _Handle(_pre, hook)


def register_optimizer_step_post_hook(hook):
    _post.append(hook)
    return _Handle(_post, hook)


class Optimizer:
    def step(self):
        for hook in _pre:
            hook(self, (), {})
        for hook in _post:
            hook(self, (), {})
