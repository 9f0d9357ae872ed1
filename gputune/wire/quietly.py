"""Arrow Flight, with gRPC below it told to write nothing: its notes on failed handshakes would go over the screen."""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # read when the library is loaded; children of this process are ours

from pyarrow import flight

__all__ = ["flight"]
