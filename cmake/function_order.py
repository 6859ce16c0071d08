#!/usr/bin/env python3
"""Writes function_order.tar.xz: an order of the functions of a command, one mangled name a line, for the linker's
--symbol-ordering-file. Code that the same models run lies together then, in few pages.

    python3 cmake/function_order.py [--append] build/release/bin/smelt MODEL...

Each model runs once with one thread and once with two under ptrace, with a breakpoint at the begin of every function,
on Linux for x86-64. Functions that the archive names and no model calls come last.
--append: the archive's order stays; functions that it does not name come behind the one that is called before them, and
those that only runs of two threads call come last.
"""

import ctypes
import io
import os
import pathlib
import subprocess
import sys
import tarfile
from typing import NamedTuple

TRACEME, CONT, GETREGS, SETREGS, SETOPTIONS = 0, 7, 12, 13, 0x4200
TRACECLONE, EXITKILL = 8, 1 << 20
RIP = 16  # index of the program counter in user_regs_struct
BREAKPOINT = b"\xcc"
SIGTRAP, SIGSTOP = 5, 19
WALL = 0x40000000  # waitpid() takes threads, too

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def functions_of(command):
    """(names, bytes), both by address relative to the command's begin; the symbols of code are t, T, w and W."""
    listed = subprocess.run(["nm", "-S", command], capture_output=True, text=True, check=True).stdout
    names, sizes = {}, {}
    for line in listed.splitlines():
        words = line.split()
        if len(words) in (3, 4) and words[-2] in "tTwW":
            address = int(words[0], 16)
            names.setdefault(address, []).append(words[-1])
            if len(words) == 4:
                sizes[address] = int(words[1], 16)
    return names, sizes


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
    libc.ptrace(SETOPTIONS, pid, None, TRACECLONE | EXITKILL)
    begin, order = begin_of(pid, command), []
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        replaced = {}
        for address in functions:
            memory.seek(begin + address)
            replaced[begin + address] = memory.read(1)
            memory.seek(begin + address)
            memory.write(BREAKPOINT)
        registers = (ctypes.c_ulonglong * 27)()
        at_breakpoint = frozenset(replaced)
        thread, signal = pid, 0
        while True:
            libc.ptrace(CONT, thread, None, signal)
            thread, status = os.waitpid(-1, WALL)
            while thread != pid and not os.WIFSTOPPED(status):  # a thread ends
                thread, status = os.waitpid(-1, WALL)
            if not os.WIFSTOPPED(status):
                if os.WIFSIGNALED(status) or os.WEXITSTATUS(status):
                    raise SystemExit(f"{command} {' '.join(arguments)} fails")
                return order
            signal = os.WSTOPSIG(status)
            if signal == SIGSTOP or status >> 16:  # a thread begins, or made one
                signal = 0
                continue
            libc.ptrace(GETREGS, thread, None, ctypes.byref(registers))
            at = registers[RIP] - 1
            if signal != SIGTRAP or at not in at_breakpoint:
                continue
            signal = 0
            registers[RIP] = at
            libc.ptrace(SETREGS, thread, None, ctypes.byref(registers))
            if at in replaced:  # else two threads met it
                memory.seek(at)
                memory.write(replaced.pop(at))
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


class Cluster(NamedTuple):
    """Functions that lie together."""

    models: int  # bit i: model i calls one of them
    size: int  # bytes
    functions: list  # addresses, in their order

    def waste(self, other):
        """How many bytes more models would map that call some of both, each counted once a model."""
        both = (self.models | other.models).bit_count()
        return self.size * (both - self.models.bit_count()) + other.size * (both - other.models.bit_count())

    def joined(self, other):
        """Both; what more models call comes first."""
        first, second = sorted((self, other), key=lambda c: -c.models.bit_count())
        return Cluster(self.models | other.models, self.size + other.size, first.functions + second.functions)


def clustered(calls, sizes):
    """The functions of all lists of calls, one list a model, in an order that maps few bytes besides those called. The
    two clusters that waste least together become one, from those of the same models on until there is one."""
    models = {}
    for i, called_once in enumerate(calls):
        for address in called_once:
            models[address] = models.get(address, 0) | 1 << i
    groups = {}
    for address, bits in models.items():
        groups.setdefault(bits, []).append(address)
    clusters = {i: Cluster(bits, sum(sizes.get(a, 1) for a in at), at) for i, (bits, at) in enumerate(groups.items())}
    best = {}  # by cluster: (waste, the other one)

    def look_for_best(i):
        best[i] = min((clusters[i].waste(c), j) for j, c in clusters.items() if j != i)

    for i in clusters if len(clusters) > 1 else ():
        look_for_best(i)
    while len(clusters) > 1:
        i = min(best, key=lambda k: (best[k][0], k))
        j, new = best[i][1], max(clusters) + 1
        cluster = clusters.pop(i).joined(clusters.pop(j))
        del best[i], best[j]
        clusters[new] = cluster
        for k in list(best):
            if best[k][1] in (i, j):
                look_for_best(k)
            else:
                best[k] = min(best[k], (cluster.waste(clusters[k]), new))
        if best:
            look_for_best(new)
    return [address for cluster in clusters.values() for address in cluster.functions]


def main():
    arguments = sys.argv[1:]
    append = arguments[:1] == ["--append"]
    if append:
        del arguments[0]
    if len(arguments) < 2:
        sys.exit(__doc__)
    archive_path = pathlib.Path(__file__).with_suffix(".tar.xz")
    command = str(pathlib.Path(arguments[0]).resolve())
    functions, sizes = functions_of(command)
    with tarfile.open(archive_path) as archive:
        names = archive.extractfile("function_order.txt").read().decode().split()
    there = {name for found in functions.values() for name in found}
    names = [name for name in names if name in there]
    calls, of_two = (
        [
            called(command, functions, ["bench", model, "--json", "--threads", threads, "--runs", "1"])
            for model in arguments[1:]
        ]
        for threads in ("1", "2")
    )

    def names_of(order):
        return [name for address in order for name in functions[address]]

    if append:
        names = merged(names, names_of(address for one in calls for address in one))
        lines = list(dict.fromkeys(names + names_of(address for one in of_two for address in one)))
    else:
        lines = list(dict.fromkeys(names_of(clustered(calls + of_two, sizes)) + names))
    text = "".join(f"{name}\n" for name in lines).encode()
    entry = tarfile.TarInfo("function_order.txt")
    entry.size = len(text)
    with tarfile.open(archive_path, "w:xz", preset=9) as archive:
        archive.addfile(entry, io.BytesIO(text))


if __name__ == "__main__":
    main()
