"""The simulated libraries have every function that PyTorch's libraries import from CUDA's or ask the driver for.

    python3 imports.py FOLDER_OF_THE_SIMULATED_LIBRARIES [FOLDER_OF_A_WHEEL ...]

Without wheels it looks at the one of $STALLOC_LAB_PYTHON, the interpreter that the laboratory's tests use, and exits
with 77 (skipped) where that has no PyTorch with CUDA. Reads the dynamic symbol tables by itself: the libraries are of
gigabytes, and no tool for that is everywhere.
"""

import mmap
import os
import pathlib
import re
import struct
import subprocess
import sys

SKIPPED = 77
SIMULATED = re.compile(r"libcudart\.so\.\d+|libcuda\.so\.1|libnvidia-ml\.so\.1")
# Names of the driver's and NVML's functions, as header files have them: PyTorch looks them up when it first needs them.
LOOKED_UP = re.compile(r"_\((cu[A-Z]\w+|nvml\w+)")


class Library:
    """The dynamic symbols of an ELF file (64 bits, little-endian)."""

    def __init__(self, path):
        self.imports = {}  # name -> library whose version it has, or ""
        self.exports = set()
        self.needed = []
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if data[:6] != b"\x7fELF\x02\x01":
                raise ValueError(f"{path}: not an ELF file of 64 bits, little-endian")
            self._read(data)

    def _read(self, data):
        offset, size, count = struct.unpack_from("<Q", data, 0x28)[0], *struct.unpack_from("<HH", data, 0x3A)
        fields = ("name", "type", "flags", "address", "offset", "size", "link", "info", "align", "entry")
        sections = [dict(zip(fields, struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size))) for i in range(count)]
        by_type = {section["type"]: section for section in sections}
        symbols = by_type.get(11)
        if symbols is None:
            return
        strings = sections[symbols["link"]]

        def text(at):
            begin = strings["offset"] + at
            return data[begin : data.find(b"\0", begin)].decode()

        libraries = self._versions(data, by_type.get(0x6FFFFFFE), text)
        versions = by_type.get(0x6FFFFFFF)
        for i in range(1, symbols["size"] // 24):
            name, _, _, section = struct.unpack_from("<IBBH", data, symbols["offset"] + i * 24)
            version = struct.unpack_from("<H", data, versions["offset"] + 2 * i)[0] & 0x7FFF if versions else 0
            if section == 0:
                self.imports[text(name)] = libraries.get(version, "")
            else:
                self.exports.add(text(name))
        dynamic = by_type.get(6)
        for at in range(dynamic["offset"], dynamic["offset"] + dynamic["size"], 16) if dynamic else ():
            tag, value = struct.unpack_from("<qQ", data, at)
            if tag == 1:
                self.needed.append(text(value))

    @staticmethod
    def _versions(data, section, text):
        libraries = {}
        at = section["offset"] if section else None
        while at is not None:
            _, count, file, first, following = struct.unpack_from("<HHIII", data, at)
            entry = at + first
            for _ in range(count):
                _, _, number, _, step = struct.unpack_from("<IHHII", data, entry)
                libraries[number] = text(file)
                entry += step
            at = at + following if following else None
        return libraries


def torch_folder():
    python = os.environ.get("STALLOC_LAB_PYTHON")
    if not python:
        return None, "STALLOC_LAB_PYTHON is not set"
    code = "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True)
    if found.returncode != 0:
        return None, f"{python} has no torch"
    return pathlib.Path(found.stdout.strip()), ""


def missing_of(folder, simulated):
    """(what is missing, with who wants it; how many functions were looked at)"""
    missing, seen = {}, set()
    for path in sorted(folder.rglob("*.so*")):
        if path.is_symlink() or not path.is_file() or not re.search(r"\.so(\.\d+)*$", path.name):
            continue
        library = Library(path)
        wanted = [name for name in library.needed if SIMULATED.fullmatch(name)]
        for name, version in library.imports.items():
            # The driver's functions have no versions; whoever needs libcuda.so.1 means its own.
            if not version and "libcuda.so.1" in wanted and re.match(r"cu[A-Z]", name):
                if not re.match(r"cu(blas|dnn|fft|sparse|solver|rand|File|pti|dss|tensor)", name):
                    version = "libcuda.so.1"
            if not SIMULATED.fullmatch(version):
                continue
            seen.add((version, name))
            if version not in simulated or name not in simulated[version].exports:
                missing.setdefault((version, name), path.name)
    for header in folder.rglob("driver_api.h"):
        for name in LOOKED_UP.findall(header.read_text()):
            version = "libcuda.so.1" if name.startswith("cu") else "libnvidia-ml.so.1"
            seen.add((version, name))
            exports = simulated[version].exports
            if name not in exports and f"{name}_v2" not in exports:
                missing.setdefault((version, name), header.name)
    return missing, len(seen)


def main():
    simulated = {
        path.name: Library(path)
        for path in pathlib.Path(sys.argv[1]).iterdir()
        if SIMULATED.fullmatch(path.name)
    }
    folders = [pathlib.Path(argument) for argument in sys.argv[2:]]
    if not folders:
        folder, reason = torch_folder()
        if folder is None:
            print(f"skipped: {reason}")
            return SKIPPED
        folders = [folder]
    failed = False
    for folder in folders:
        missing, count = missing_of(folder, simulated)
        if count == 0:
            print(f"skipped: {folder} has no library that uses CUDA")
            return SKIPPED
        print(f"{folder}: {count} functions of CUDA, {len(missing)} not simulated")
        for (version, name), user in sorted(missing.items()):
            print(f"  {version} lacks {name}, which {user} wants")
        failed |= bool(missing)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
