#!/usr/bin/env python3
"""Whether the predictor of pages can be compiled where em++ is: playground_test.py ROOT.

em++ is on few machines, so that this reads the sources of playground/wasm/CMakeLists.txt and what they include: every
foreign header must be one that the build gives them, and every algorithm and view of std::ranges one that the library
of em++ 3.1.6 has, or that standard_library.inc adds. A minimum of std::int64_t and std::ssize() names its type, since
they are two types there.
"""
import glob
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
WASM = ROOT / "playground/wasm"
# What libc++ 13 has, as far as it is used.
LIBRARY = set("begin end size subrange range_value_t viewable_range transform_view less greater less_equal equal_to "
              "random_access_range".split())
NARROW = re.compile(r"std::(?:min|max)\((?:[^()]|\([^()]*\))*std::ssize\(")


def words(pattern, text):
    return re.search(pattern, text, re.S).group(1).split()


def sources(build):
    """Returns the sources that CMake collects, relative to the root."""
    globs = words(r"plumbline_wasm_sources\(sources (.*?)\)", build)
    left_out = re.search(r'EXCLUDE REGEX "(.*?)"', build).group(1)
    found = [path for pattern in globs for path in glob.glob(pattern.replace("*", "**/*"), root_dir=ROOT, recursive=True)]
    return [path for path in found if not re.search(left_out, path)] + words(r"list\(APPEND sources (.*?)\)", build)


def main():
    build = (WASM / "CMakeLists.txt").read_text()
    given = {name.split("/")[0] for name in words(r"foreach\(header (.*?)\)", build)} | {"Eigen", "emscripten"}
    added = set(re.findall(r"\b(\w+)(?=\(R&&|\(Work| = transform)", (WASM / "standard_library.inc").read_text()))
    queue, findings = sources(build), []
    seen = set(queue)
    for path in queue:
        text = re.sub(r"//.*", "", (ROOT / path).read_text())
        for quote, header in re.findall(r'^#include ([<"])([^>"]+)', text, re.M):
            if quote == '"' and (ROOT / header).exists() and header not in seen:
                seen.add(header)
                queue.append(header)
            own = quote == '"' or header in build
            if not own and re.search(r"/|\.hpp$", header) and not header.startswith("sys/") and header.split("/")[0] not in given:
                findings.append(f"{path} includes <{header}>, which is not there")
        for name in re.findall(r"std::(?:ranges|views)::(\w+)", text):
            if name not in added | LIBRARY:
                findings.append(f"{path} uses {name} of std::ranges, which standard_library.inc does not add")
        if NARROW.search(text):
            findings.append(f"{path} takes a minimum of two types: std::min<std::int64_t>")
    print("\n".join(findings) or f"{len(queue)} files")
    return 1 if findings or len(queue) < 100 else 0


sys.exit(main())
