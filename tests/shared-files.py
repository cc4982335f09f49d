#!/usr/bin/env python3
"""Which wheels of locks install the same paths: the rows of `[[shared_files]]` in registry/loading.toml come from here.

usage: shared-files.py --index URL LOCK...     (the URL of a Simple API, such as .../simple)
       shared-files.py --index URL --packages NAME...

Reads the list of files of each locked wheel (the end of the archive, by a range request) and prints the paths that two
packages of one lock own. `__init__.py` files without content, which namespace packages share, do not count.

With `--packages`, every release of each name is held against every release of the others: how many pairs share a path,
and which libraries. Releases are read by their wheel for Linux x86-64.
"""
import argparse, io, itertools, json, pathlib, tomllib, urllib.request, zipfile


class Remote(io.RawIOBase):
    """A file on a server, read by ranges."""

    def __init__(self, url):
        self.url, self.place, self.known = url, 0, {}
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD")) as answer:
            self.size = int(answer.headers["Content-Length"])

    def seekable(self):
        return True

    def tell(self):
        return self.place

    def seek(self, offset, whence=0):
        self.place = offset + {0: 0, 1: self.place, 2: self.size}[whence]
        return self.place

    def readable(self):
        return True

    def readinto(self, buffer):
        end = min(self.size, self.place + len(buffer))
        if end <= self.place:
            return 0
        asked = urllib.request.Request(self.url, headers={"Range": f"bytes={self.place}-{end - 1}"})
        with urllib.request.urlopen(asked) as answer:
            data = answer.read()
        buffer[: len(data)] = data
        self.place += len(data)
        return len(data)


def page(index, name):
    """The files of a package, as the index lists them."""
    asked = urllib.request.Request(f"{index}/{name}/", headers={"Accept": "application/vnd.pypi.simple.v1+json"})
    return json.load(urllib.request.urlopen(asked))["files"]


def paths(index, name, filename):
    """The paths that a wheel installs, with their sizes."""
    url = next(file["url"] for file in page(index, name) if file["filename"] == filename)
    with zipfile.ZipFile(io.BufferedReader(Remote(url), 1 << 18)) as archive:
        return {m.filename: m.file_size for m in archive.infolist() if not m.is_dir()}


def counts(path, size):
    is_record = ".dist-info/" in path or ".data/" in path
    return not is_record and not (path.endswith("__init__.py") and size < 200)


def releases(index, name):
    """The paths of each release of a package that has a wheel for Linux x86-64."""
    wheels = {}
    for file in page(index, name):
        filename = file["filename"]
        if filename.endswith(".whl") and "manylinux" in filename and "aarch64" not in filename:
            wheels[filename.split("-")[1]] = filename
    found = {}
    for version, filename in wheels.items():
        found[version] = {path for path, size in paths(index, name, filename).items() if counts(path, size)}
    return found


def by_release(index, names):
    """Prints which packages have releases that install the same paths."""
    known = {name: releases(index, name) for name in sorted(names)}
    for first, second in itertools.combinations(known, 2):
        both = [a & b for a in known[first].values() for b in known[second].values()]
        shared = [paths for paths in both if paths]
        libraries = {path for paths in shared for path in paths if ".so" in path}
        if shared:
            some = sorted(libraries) or sorted(max(shared, key=len))
            print(f"{first} and {second}: {len(shared)} of {len(both)} pairs share paths, such as {', '.join(some[:3])}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--index", required=True)
    parser.add_argument("--packages", nargs="+", default=[])
    parser.add_argument("locks", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    by_release(options.index, options.packages)
    known, told = {}, set()
    for lock in options.locks:
        owners = {}
        for package in tomllib.loads(lock.read_text())["package"]:
            wheels = [file["name"] for file in package.get("files", []) if file["name"].endswith(".whl")]
            for filename in wheels[:1]:
                if filename not in known:
                    try:
                        known[filename] = paths(options.index, package["name"], filename)
                    except (OSError, StopIteration, zipfile.BadZipFile) as error:
                        print(f"{filename}: {error or 'not on the index'}")
                        known[filename] = {}
                for path, size in known[filename].items():
                    if counts(path, size):
                        owners.setdefault(path, []).append(f"{package['name']} {package['version']}")
        pairs = {}
        for path, names in owners.items():
            if len(set(names)) > 1:
                pairs.setdefault(tuple(sorted(set(names))), []).append(path)
        for names, shared in sorted(pairs.items()):
            if names not in told:
                told.add(names)
                print(f"{lock}: {' and '.join(names)}: {len(shared)} paths, such as {', '.join(shared[:3])}")


main()
