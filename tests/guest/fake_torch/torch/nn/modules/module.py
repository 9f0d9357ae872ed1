class Module:
    def __init__(self, *children):
        self.inner = children
        self.training = True

    def train(self, mode=True):
        self.training = mode
        for child in self.inner:
            child.train(mode)
        return self

    def eval(self):
        return self.train(False)
