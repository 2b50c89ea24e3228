"""Runs the processes that a test starts. Each has a deadline, so that what hangs is killed and fails its test."""

import subprocess

# By then every process has ended, also on a machine that does much else.
DEADLINE_S = 300


def run(command, check=False, **options):
    """subprocess.run() without input, of words or of a line of the shell; at the deadline it and all that it started end."""
    words = ["sh", "-c", command] if isinstance(command, str) else command
    done = subprocess.run(["timeout", "--kill-after=5", str(DEADLINE_S), *words], stdin=subprocess.DEVNULL, **options)
    # The codes of `timeout` where the process ended at SIGTERM, and where it had to be killed.
    if done.returncode in (124, 137, -9):
        raise TimeoutError(f"killed, or still running after {DEADLINE_S} s: {command}")
    if check:
        done.check_returncode()
    return done
