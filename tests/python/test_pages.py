"""The code of docs/python.md and of the notebooks runs, and prints what stands there.

`test_pages.py --update` writes what the code of the page prints into the page.
"""

import contextlib
import io
import json
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/python.md"
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)


def missing():
    """The package that the code needs and that is not there."""
    for name in ("pandas", "matplotlib"):
        try:
            __import__(name)
        except ImportError:
            return name
    return None


def run(code, names):
    """Runs code as a file or a cell would be, and returns what it prints; a last expression is not shown."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "<code>", "exec"), names)
    return printed.getvalue()


@contextlib.contextmanager
def folder():
    """Another working directory, for the files that the code writes."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as path:
        os.chdir(path)
        try:
            yield
        finally:
            os.chdir(before)


@unittest.skipIf(missing(), f"{missing()} is missing (Debian: python3-{missing()})")
class Pages(unittest.TestCase):
    def test_the_page(self):
        names = {"__name__": "__main__"}
        blocks = BLOCK.findall(PAGE.read_text())
        self.assertGreater(len(blocks), 5)
        with folder():
            for code, printed in blocks:
                with self.subTest(code=code):
                    self.assertEqual(run(code, names), printed)

    def test_the_notebooks(self):
        notebooks = sorted((ROOT / "examples/python").glob("*.ipynb"))
        self.assertTrue(notebooks)
        for notebook in notebooks:
            cells = json.loads(notebook.read_text())["cells"]
            names = {"__name__": "__main__"}
            with self.subTest(notebook=notebook.name), folder():
                for cell in cells:
                    if cell["cell_type"] == "code":
                        self.assertEqual(cell["outputs"], [], "a notebook is stored without outputs")
                        run("".join(cell["source"]), names)


def update():
    names = {"__name__": "__main__"}

    def rewritten(block):
        printed = run(block[1], names)
        return f"```python\n{block[1]}```\n" + (f"\n```text\n{printed}```\n" if printed else "")

    with folder():
        PAGE.write_text(BLOCK.sub(rewritten, PAGE.read_text()))


if __name__ == "__main__":
    update() if sys.argv[1:] == ["--update"] else unittest.main()
