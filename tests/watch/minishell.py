"""Run as a script on a terminal of its own: a shell's job control, for one job, and without a person.

It puts the command into a process group in the foreground, says when it has stopped, continues it at once, and
says how it ended.
"""

import os
import signal
import sys


def main(argv: list[str]) -> None:
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    job = os.fork()
    if not job:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execvp(argv[0], argv)
    while True:
        _, status = os.waitpid(job, os.WUNTRACED)
        os.tcsetpgrp(0, os.getpgrp())
        if not os.WIFSTOPPED(status):
            break
        print(f"shell: stopped by {signal.Signals(os.WSTOPSIG(status)).name}", flush=True)
        os.tcsetpgrp(0, job)
        os.killpg(job, signal.SIGCONT)
    print(f"shell: ended with {os.waitstatus_to_exitcode(status)}", flush=True)


main(sys.argv[1:])
