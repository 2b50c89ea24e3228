#!/usr/bin/env python3
"""Packs a build twice and reads what it says it is made of: packages_test.py ROOT BUILD.

The tarballs must have the same bytes, though one is packed later, by another umask, in another time zone and locale. The
list of components must be SPDX 2.3: every identifier once, every licence one that SPDX knows or that the document
explains, and every library that the loader finds for the command in it. The exit code is 77 where dpkg or Ninja is not
there.
"""
import hashlib
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.dont_write_bytecode = True
import processes  # noqa: E402

ROOT, BUILD = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
EPOCH = 1700000000
IDENTIFIER = re.compile(r"SPDXRef-[A-Za-z0-9.-]+")


def run(*command, umask=0o022, **environment):
    processes.run([str(word) for word in command], check=True, umask=umask,
                  env={**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH), **environment})


def check(holds, text):
    if not holds:
        sys.exit(f"packages_test: {text}")


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_tarballs(folder):
    first, second = folder / "first.tar", folder / "second.tar"
    run(ROOT / "cmake/make-tarball", BUILD, "plumbline", first)
    run(ROOT / "cmake/make-tarball", BUILD, "plumbline", second, umask=0o077, TZ="Asia/Tokyo", LC_ALL="C.UTF-8")
    check(digest(first) == digest(second), "two tarballs of one build differ")
    listed = processes.run(["tar", "--list", "--verbose", "--utc", "--file", first], capture_output=True, text=True, check=True)
    lines = listed.stdout.splitlines()
    check(len(lines) > 100, f"the tarball has {len(lines)} entries")
    for line in lines:
        check(" 0/0 " in line and " 2023-11-14 22:13 " in line, f"an owner or date of the machine: {line}")


def check_packages(document):
    packages = {package["SPDXID"]: package for package in document["packages"]}
    check(len(packages) == len(document["packages"]), "an identifier is there twice")
    explained = {text["licenseId"] for text in document["hasExtractedLicensingInfos"]}
    for identifier, package in packages.items():
        check(IDENTIFIER.fullmatch(identifier), f"{identifier} is no identifier of SPDX")
        check(package["name"] and package["versionInfo"], f"{identifier} has no name or version")
        for word in re.findall(r"LicenseRef-\S+", package["licenseDeclared"]):
            check(word in explained, f"{identifier}: {word} is not explained")
        check(package["externalRefs"][0]["referenceLocator"].startswith("pkg:"), f"{identifier} has no purl")
    return packages


def check_relations(document, packages):
    known = {"SPDXRef-DOCUMENT", *packages}
    related = set()
    for relation in document["relationships"]:
        check({relation["spdxElementId"], relation["relatedSpdxElement"]} <= known, f"related to nothing: {relation}")
        related.add(relation["relatedSpdxElement"])
    check(related == set(packages), f"related to nothing: {set(packages) - related}")


def check_libraries(packages):
    """Holds the list against the packages of the libraries that the command needs itself, found in another way."""
    needed = processes.run(["objdump", "-p", BUILD / "plumbline"], capture_output=True, text=True, check=True).stdout
    sources = {package["name"] for package in packages.values()}
    loader = processes.run(["ldd", BUILD / "plumbline"], capture_output=True, text=True, check=True).stdout
    for name in re.findall(r"NEEDED\s+(\S+)", needed):
        path = re.search(re.escape(name) + r" => (\S+)", loader)
        if not path:
            continue  # the loader itself
        owner = processes.run(["dpkg-query", "--search", os.path.realpath(path[1])], capture_output=True, text=True)
        if owner.returncode == 0:
            package = owner.stdout.split(": ")[0]
            source = processes.run(["dpkg-query", "--show", "--showformat=${source:Package}", package],
                                   capture_output=True, text=True, check=True).stdout
            check(source in sources, f"{name} of {source} is not listed")


def check_bill(folder):
    files = [folder / "first.json", folder / "second.json"]
    for file in files:
        run(ROOT / "cmake/make-sbom", BUILD, file)
    check(digest(files[0]) == digest(files[1]), "two lists of one build differ")
    document = json.loads(files[0].read_text())
    check(document["spdxVersion"] == "SPDX-2.3" and document["dataLicense"] == "CC0-1.0", "not SPDX 2.3")
    check(document["creationInfo"]["created"] == "2023-11-14T22:13:20Z", "the date is not SOURCE_DATE_EPOCH")
    packages = check_packages(document)
    check_relations(document, packages)
    check_libraries(packages)


for tool in ("dpkg-query", "ninja", "objdump"):
    if not shutil.which(tool):
        print(f"{tool} is not there")
        sys.exit(77)
with tempfile.TemporaryDirectory() as temporary:
    check_bill(pathlib.Path(temporary))
    check_tarballs(pathlib.Path(temporary))
