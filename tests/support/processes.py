"""Runs the processes that a test starts. Each has a deadline, so that what hangs is killed and fails its test."""

import subprocess

# By then every process has ended, also on a machine that does much else.
DEADLINE_S = 300


def run(command, check=False, deadline_s=DEADLINE_S, **options):
    """subprocess.run() without input, of words or of a line of the shell; at the deadline it and all that it started end."""
    words = ["sh", "-c", command] if isinstance(command, str) else command
    done = subprocess.run(["timeout", "--kill-after=5", str(deadline_s), *words], stdin=subprocess.DEVNULL, **options)
    # The codes of `timeout` where the process ended at SIGTERM, and where it had to be killed.
    if done.returncode in (124, 137, -9):
        raise TimeoutError(f"killed, or still running after {deadline_s} s: {command}")
    if check:
        done.check_returncode()
    return done
