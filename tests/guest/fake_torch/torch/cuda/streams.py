"""Another stream, which is through with what was queued when it was made."""

import time

import torch.cuda


class Stream:
    def __init__(self):
        self.at = torch.cuda._clock[0]

    def synchronize(self):
        time.sleep(max(0.0, self.at / 1e3 - time.monotonic()))
