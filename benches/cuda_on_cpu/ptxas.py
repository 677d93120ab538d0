#!/usr/bin/env python3
"""Assembles the kernels that a run compiled with NVIDIA's assembler and prints their registers and spilled bytes.

    pip install nvidia-cuda-nvcc nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl
    CUDA_ON_CPU_NVRTC=…/libnvrtc.so.13 CUDA_ON_CPU_HEADERS=…/include:…/include/cccl run.sh PROGRAM ARGUMENTS
    ptxas.py --ptxas …/bin/ptxas FOLDER [--sm 90a] [--all]

FOLDER is CUDA_ON_CPU_CACHE, in which run.sh has left each kernel's PTX. Kernels of the same name share one line with the maximum
over their forms. Burn's and CubeCL's own kernels, recognised by the number formats in their names, are counted but only listed with
--all. The exit status is 1 if a kernel does not assemble.
"""

import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path


class Kernel:
    """One assembled kernel."""

    def __init__(self, path, arguments):
        command = [arguments.ptxas, "-v", f"-arch=sm_{arguments.sm}", path, "-o", os.devnull]
        done = subprocess.run(command, capture_output=True, text=True)
        self.failure = done.stderr.strip() if done.returncode else None
        entry = re.search(r"\.entry (\w+)", path.read_text())
        self.name = re.sub(r"_[0-9a-f]{8}$", "", entry.group(1)) if entry else path.name
        self.registers = self.number(r"Used (\d+) registers", done.stderr)
        self.spilled = self.number(r"(\d+) bytes spill stores", done.stderr)

    @staticmethod
    def number(pattern, text):
        found = re.search(pattern, text)
        return int(found.group(1)) if found else 0

    def is_foreign(self):
        return re.search(r"_(f32|bf16|f16|i32|u8|u32)(_|$)", self.name) is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ptxas", default="ptxas")
    parser.add_argument("--sm", default="90a")
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    if shutil.which(arguments.ptxas) is None:
        parser.error(f"there is no {arguments.ptxas}: pip install nvidia-cuda-nvcc, then --ptxas nvidia/cu13/bin/ptxas of its folder")
    paths = sorted(arguments.folder.glob(f"*.sm_{arguments.sm}.ptx"))
    if not paths:
        parser.error(f"{arguments.folder} has no *.sm_{arguments.sm}.ptx: run a program with CUDA_ON_CPU_NVRTC first")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        kernels = list(threads.map(lambda path: Kernel(path, arguments), paths))
    by_name = {}
    for kernel in kernels:
        by_name.setdefault(kernel.name, []).append(kernel)
    print(f"{'kernel':60} {'forms':>5} {'registers':>9} {'spilled':>8}")
    for name, forms in sorted(by_name.items(), key=lambda item: -max(k.registers for k in item[1])):
        if arguments.all or not forms[0].is_foreign():
            most = [max(getattr(kernel, what) for kernel in forms) for what in ("registers", "spilled")]
            print(f"{name[:60]:60} {len(forms):5} {most[0]:9} {most[1]:8}")
    failed = [kernel for kernel in kernels if kernel.failure]
    for kernel in failed:
        print(f"{kernel.name}: {kernel.failure}", file=sys.stderr)
    foreign = sum(kernel.is_foreign() for kernel in kernels)
    print(f"{len(kernels)} kernels for sm_{arguments.sm}, {foreign} of them Burn's: {len(failed)} do not assemble")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
