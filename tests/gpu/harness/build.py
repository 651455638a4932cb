"""Builds the CUDA C++ test programs on the machine that runs them, with whatever nvcc it has."""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

GPU = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def find_nvcc():
    for path in (os.environ.get("CUDACXX"), shutil.which("nvcc"), "/usr/local/cuda/bin/nvcc"):
        if path and os.path.exists(path):
            return os.path.realpath(path)
    return None


def _command(nvcc, source, output, cudart, flags, libraries):
    root = os.path.dirname(os.path.dirname(nvcc))
    folders = [os.path.join(root, part) for part in ("lib64", "targets/x86_64-linux/lib")]
    command = [nvcc, "-std=c++20", "-O2", "-arch=native", f"-I{GPU}", "-cudart", cudart, *flags]
    command += [os.path.join(GPU, source), "-o", output]
    for folder in folders:
        command += [f"-L{folder}", f"-L{folder}/stubs", "-Xlinker", f"-rpath={folder}"]
    return command + [f"-l{name}" for name in libraries]


def build_all(programs, directory, timeout_s=180):
    """programs: {name: (source, cudart, flags, libraries)}, built side by side. Returns {name: path or error text}."""
    nvcc = find_nvcc()
    os.makedirs(directory, exist_ok=True)

    def build(item):
        name, (source, cudart, flags, libraries) = item
        if nvcc is None:
            return name, None, "no nvcc here"
        output = os.path.join(directory, name)
        command = _command(nvcc, source, output, cudart, flags, libraries)
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return name, None, "nvcc took too long"
        return name, (output if done.returncode == 0 else None), done.stderr.strip()[-800:]

    with ThreadPoolExecutor(max_workers=min(8, len(programs))) as pool:
        return {name: (path, message) for name, path, message in pool.map(build, programs.items())}
