"""Messages that several threads decode for the first time at one time: msgspec itself does not survive that."""

import subprocess
import sys

PROGRAM = """
import sys, threading
import msgspec
from gputune.nodes.round import UPDATES, Update
from gputune.wire import link_rate, messages

KINDS = [Update, link_rate.LinkRateRequest, link_rate.Transferred, *(
    kind for kind in vars(messages).values() if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
)]
sys.setswitchinterval(1e-6)
start = threading.Barrier(16)

def meet():
    start.wait()
    for kind in KINDS:
        for data in (b"{}", b"[]", b'{"protocol": 1}'):
            try:
                msgspec.json.decode(data, type=kind)
            except msgspec.DecodeError:
                pass

threads = [threading.Thread(target=meet) for _ in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(KINDS) > 8
"""


def test_threads_that_meet_a_message_first_survive_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
