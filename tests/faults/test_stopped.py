"""Signals are waited for by a process that may itself be stopped meanwhile."""

import signal
import subprocess
import sys
import time

import psutil

WAITS = "from gputune.launch import signals; import signal; print('up', flush=True); print(signals.awaited({10}, 0.2))"
BLOCKS = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {10}); "


def test_who_was_stopped_in_the_middle_of_waiting_goes_on() -> None:
    for _ in range(3):
        with subprocess.Popen((sys.executable, "-c", BLOCKS + WAITS), stdout=subprocess.PIPE, text=True) as waiting:
            assert waiting.stdout is not None
            assert waiting.stdout.readline() == "up\n"
            waiting.send_signal(signal.SIGSTOP)
            while psutil.Process(waiting.pid).status() != psutil.STATUS_STOPPED:
                time.sleep(0.001)
            time.sleep(0.3)  # what is waited for: longer than it would have
            waiting.send_signal(signal.SIGCONT)
            assert waiting.communicate(timeout=60)[0] == "None\n"
        assert waiting.returncode == 0
