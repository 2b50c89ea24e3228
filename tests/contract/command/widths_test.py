"""Holds what the command prints for people, and the help of every verb, within 80 columns; examples are commands.

Usage: widths_test.py PLUMBLINE FOLDER_OF_TRANSCRIPTS. Formats for programs may be wider (JSON, TOML, CSV, XML, files of
cases, the columns of nccl-tests), a line with a path that fills it, and what --wide asks for. A message on stderr is one
line, so that it can be searched for.
"""

import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
sys.dont_write_bytecode = True
import processes  # noqa: E402

WIDTH = 80
DATA = re.compile(
    r"""\s*(
      [\[\]{}"<#]            # JSON, XML, comments of TOML
    | [\w."-]+\s=\s          # TOML
    | \w+\ name=             # a case to measure
    | ([^,]*,){6}(?!.*\ \ )  # CSV
    )""",
    re.VERBOSE,
)

# Commands that print what a program reads, or what --wide asks for.
FOR_PROGRAMS = re.compile(r"--wide|--collectives|--csv -|completion words|export megatron")


def wide_lines(text):
    return [line for line in text.splitlines() if len(line) > WIDTH]


def fills(line):
    """Whether a single word, a path, is what makes the line wide."""
    return any("/" in word and len(line) - len(word) < WIDTH // 2 for word in line.split())


def of_transcript(path):
    command, found = None, []
    for line in path.read_text().splitlines():
        if line.startswith("$ "):
            command = line
        elif command is None or line.startswith(("! ", "> ")) or len(line) <= WIDTH:
            continue
        elif not (FOR_PROGRAMS.search(command) or DATA.match(line) or fills(line)):
            found.append(f"{path.name}: {command}\n  {len(line)}: {line}")
    return found


def broken_examples(text):
    """Lines of examples that a shell would take as commands of their own, although they go on with the one above."""
    lines = text.partition("Examples:\n")[2].splitlines()
    return [line for above, line in zip(lines, lines[1:]) if line.startswith("   ") and not above.endswith(" \\")]


def of_help(plumbline):
    environment = {name: value for name, value in os.environ.items() if name != "PLUMBLINE_WIDE"}

    def help_of(*verb):
        return processes.run([plumbline, *verb, "--help"], capture_output=True, text=True, env=environment).stdout

    root = help_of()
    verbs = re.findall(r"^  ([a-z]+) ", root.split("Subcommands:")[1], re.MULTILINE)
    found = [f"--help: {line}" for line in wide_lines(root)]
    for verb in verbs:
        text = help_of(verb)
        found += [f"{verb} --help: {line}" for line in wide_lines(text) + broken_examples(text)]
    return found if len(verbs) > 10 else found + [f"only {len(verbs)} verbs are listed"]


wide = of_help(sys.argv[1])
for transcript in sorted(Path(sys.argv[2]).glob("*.txt")):
    if transcript.name != "CMakeLists.txt":
        wide += of_transcript(transcript)
print("\n".join(wide))
sys.exit(1 if wide else 0)
