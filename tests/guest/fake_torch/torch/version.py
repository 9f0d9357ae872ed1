import os

cuda = os.environ.get("FAKE_CUDA")
