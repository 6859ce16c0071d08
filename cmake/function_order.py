#!/usr/bin/env python3
"""Writes function_order.tar.xz: the functions of a command in the order in which runs first call them, one mangled name
a line, for the linker's --symbol-ordering-file. Code that runs together lies together then, in few pages.

    python3 cmake/function_order.py [--append] build/release/bin/smelt MODEL...

--append: the archive's order stays; functions that it does not name come behind the one that is called before them.
Each model runs once with one thread under ptrace, with a breakpoint at the begin of every function, on Linux for
x86-64. Those of the first models come first: small networks, whose code takes more memory than their weights.
"""

import ctypes
import io
import os
import pathlib
import subprocess
import sys
import tarfile

TRACEME, GETREGS, SETREGS, CONT = 0, 12, 13, 7
RIP = 16  # index of the program counter in user_regs_struct
BREAKPOINT = b"\xcc"
SIGTRAP = 5

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def functions_of(command):
    """Names by address relative to the command's begin; the symbols of code are t, T, w and W."""
    listed = subprocess.run(["nm", command], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in listed.splitlines():
        words = line.split()
        if len(words) == 3 and words[1] in "tTwW":
            found.setdefault(int(words[0], 16), []).append(words[2])
    return found


def begin_of(pid, command):
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
        if line.endswith(command):
            return int(line.split("-")[0], 16)
    raise SystemExit(f"{command} is not mapped")


def called(command, functions, arguments):
    """Addresses of the functions that one run calls, in the order of their first calls."""
    pid = os.fork()
    if pid == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        libc.ptrace(TRACEME, 0, None, None)
        os.execv(command, [command, *arguments])
    os.waitpid(pid, 0)  # stops at the begin of the new program
    begin, order = begin_of(pid, command), []
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        replaced = {}
        for address in functions:
            memory.seek(begin + address)
            replaced[begin + address] = memory.read(1)
            memory.seek(begin + address)
            memory.write(BREAKPOINT)
        registers = (ctypes.c_ulonglong * 27)()
        signal = 0
        while True:
            libc.ptrace(CONT, pid, None, signal)
            _, status = os.waitpid(pid, 0)
            if os.WIFEXITED(status) or os.WIFSIGNALED(status):
                if os.WIFSIGNALED(status) or os.WEXITSTATUS(status):
                    raise SystemExit(f"{command} {' '.join(arguments)} fails")
                return order
            signal = os.WSTOPSIG(status)
            libc.ptrace(GETREGS, pid, None, ctypes.byref(registers))
            at = registers[RIP] - 1
            if signal != SIGTRAP or at not in replaced:
                continue
            signal = 0
            memory.seek(at)
            memory.write(replaced.pop(at))
            registers[RIP] = at
            libc.ptrace(SETREGS, pid, None, ctypes.byref(registers))
            order.append(at - begin)


def merged(names, calls):
    """The names, each with those calls behind it that are not among them and come next."""
    behind = {name: [] for name in [None, *names]}
    seen, before = set(names), None
    for name in calls:
        if name in behind:
            before = name
        elif name not in seen:
            seen.add(name)
            behind[before].append(name)
    return [name for known, new in behind.items() for name in [known, *new] if name]


def main():
    arguments = sys.argv[1:]
    append = arguments[:1] == ["--append"]
    if append:
        del arguments[0]
    if len(arguments) < 2:
        sys.exit(__doc__)
    archive_path = pathlib.Path(__file__).with_suffix(".tar.xz")
    command = str(pathlib.Path(arguments[0]).resolve())
    functions, names, order = functions_of(command), [], []
    if append:
        with tarfile.open(archive_path) as archive:
            names = archive.extractfile("function_order.txt").read().decode().split()
        there = {name for found in functions.values() for name in found}
        names = [name for name in names if name in there]
    for model in arguments[1:]:
        order += called(command, functions, ["bench", model, "--json", "--threads", "1", "--runs", "1"])
    text = "".join(f"{name}\n" for name in merged(names, [name for at in order for name in functions[at]])).encode()
    entry = tarfile.TarInfo("function_order.txt")
    entry.size = len(text)
    with tarfile.open(archive_path, "w:xz", preset=9) as archive:
        archive.addfile(entry, io.BytesIO(text))


if __name__ == "__main__":
    main()
