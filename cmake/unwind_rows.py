#!/usr/bin/env python3
"""Assembles what the compiler wrote, with tables for unwinding that are right at calls, where exceptions pass.

    unwind_rows.py ASSEMBLER ARGUMENTS...

The compiler describes the frame behind every push and pop. An exception leaves a function at a call only: rows that
hold at no call are left out, half of the tables. Between calls, a debugger may find another frame there.
"""

import subprocess
import sys

ARGUMENTS = "0x2e,"  # DW_CFA_GNU_args_size: bytes that a call has pushed, which a handler of exceptions drops
AT_ENTRY = ("7", "8"), {}, "0"  # the frame's address is 8 above the stack pointer; nothing is saved, no arguments

# A row that says what holds at every entry. The assembler shares what stands before a function's first instruction with
# the functions that begin likewise, and takes for that the entry without any row once there is one.
NOTHING = ["\t.cfi_def_cfa_offset 8\n"]


def rows(frame, other):
    """Directives that turn one (address, saved registers, bytes of arguments) into another one."""
    (register, offset), saved, arguments = other
    out = []
    if frame[0] != other[0]:
        if frame[0][0] == register:
            out.append(f"\t.cfi_def_cfa_offset {offset}\n")
        else:
            out.append(f"\t.cfi_def_cfa {register}, {offset}\n")
    out += [f"\t.cfi_restore {name}\n" for name in frame[1] if name not in saved]
    out += [f"\t.cfi_offset {name}, {at}\n" for name, at in saved.items() if frame[1].get(name) != at]
    if frame[2] != arguments:
        out.append(f"\t.cfi_escape {ARGUMENTS}{arguments}\n")
    return out


def function(lines):
    """The lines of a function, from .cfi_startproc on, with rows for its calls; as they are where it aligns its stack.

    Saved registers, which are few sets, stand before the first instruction, the size of the frame behind it.
    """
    out, called, begin = [], False, None
    address, saved, arguments = told = AT_ENTRY
    stack = []
    for line in lines:
        if not line.startswith("\t.cfi_"):
            if "\tcall" in line or " call" in line:
                frame = address, saved, arguments
                if called:
                    out += rows(told, frame)
                else:
                    by_size = begin is not None and address[0] == AT_ENTRY[0][0]
                    shared = (AT_ENTRY[0] if by_size else address, saved, AT_ENTRY[2])
                    out[begin or 1 : begin or 1] = rows(shared, frame)
                    out[1:1] = rows(AT_ENTRY, shared) or NOTHING
                told, called = frame, True
            out.append(line)
            if begin is None and line.startswith("\t") and line[1] != ".":
                begin = len(out)
            continue
        directive, *operands = line.replace(", ", " ").split()
        match directive[5:], operands:
            case "def_cfa_offset", (offset,):
                address = address[0], offset
            case "def_cfa_register", (register,):
                address = register, address[1]
            case "def_cfa", (register, offset):
                address = register, offset
            case "offset", (register, at):
                saved = {**saved, register: at}
            case "restore", (register,):
                saved = {name: at for name, at in saved.items() if name != register}
            case "escape", (text,) if text.startswith(ARGUMENTS):
                arguments = text.removeprefix(ARGUMENTS)
            case "remember_state", ():
                stack.append((address, saved))
            case "restore_state", ():
                address, saved = stack.pop()
            case ("startproc" | "personality" | "lsda" | "endproc"), _:
                out.append(line)
            case _:
                return [lines[0], *NOTHING, *lines[1:]]
    return out if called else [out[0], *NOTHING, *out[1:]]


def with_rows(lines):
    begin = None
    for i, line in enumerate(lines):
        if line.startswith("\t.cfi_startproc"):
            begin = i
        if begin is None:
            yield line
        elif line.startswith("\t.cfi_endproc"):
            yield from function(lines[begin : i + 1])
            begin = None


def main():
    assembler, *arguments = sys.argv[1:]
    if not arguments[-1].endswith(".s"):  # none that a compiler wrote
        return subprocess.run([assembler, *arguments], check=False).returncode
    with open(arguments[-1], encoding="utf-8", errors="surrogateescape") as file:
        text = "".join(with_rows(file.readlines()))
    command = [assembler, *arguments[:-1], "-"]
    return subprocess.run(command, input=text, encoding="utf-8", errors="surrogateescape", check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
