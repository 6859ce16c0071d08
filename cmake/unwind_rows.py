#!/usr/bin/env python3
"""Assembles what the compiler wrote, with tables for unwinding of functions that exceptions may pass, right at calls.

    unwind_rows.py ASSEMBLER ARGUMENTS...

With -fno-dwarf2-cfi-asm the compiler writes tables of the functions that exceptions may pass, as bytes, and describes
the frame behind every push and pop. They become directives, which the assembler packs better. An exception leaves a
function at a call only: rows that hold at no call are left out, and parts of functions without calls have no table.
Between calls, a debugger may find another frame. Nor has a function a table that lets no exception pass and catches
none: the program ends where the unwinder finds no table, as it would by that one.
"""

import re
import subprocess
import sys
from typing import NamedTuple

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


def is_call(line):
    return "\tcall" in line or " call" in line


def function(lines):
    """The lines of a function, from .cfi_startproc on, with rows for its calls; as they are where it aligns its stack.

    Saved registers, which are few sets, stand before the first instruction, the size of the frame behind it.
    """
    out, called, begin = [], False, None
    address, saved, arguments = told = AT_ENTRY
    stack = []
    for line in lines:
        if not line.startswith("\t.cfi_"):
            if is_call(line):
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
    return out


class Table(NamedTuple):
    """How to unwind a part of a function."""

    end: str  # label
    handlers: str  # label of the table of its handlers, or 0
    head: list[str]  # directives where it begins
    rows: dict[str, list[str]]  # directives by label


class Reader:
    """Reads the lines of a section of data: labels, and values by their directives."""

    VALUES = re.compile(r"\t\.(long|byte|uleb128|sleb128|string|align)[\t ](.*)\n")

    def __init__(self, lines, at):
        self.lines, self.at = lines, at

    def label(self):
        """The label that stands here, or None."""
        line = self.lines[self.at]
        return line[:-2] if line.endswith(":\n") else None

    def skip_label(self):
        if self.label() is None:
            raise ValueError
        self.at += 1

    def text(self, *kinds):
        found = self.VALUES.fullmatch(self.lines[self.at])
        if not found or found[1] not in kinds:
            raise ValueError
        self.at += 1
        return found[2]

    def number(self, *kinds):
        return int(self.text(*kinds), 0)

    def value(self):
        """The bytes of a value."""
        found = self.VALUES.fullmatch(self.lines[self.at])
        value = self.number("byte", "uleb128", "sleb128")
        if found[1] == "byte":
            return [value & 255]
        out, signed = [], found[1] == "sleb128"
        while not (signed and -64 <= value < 64 or not signed and value < 128):
            out.append(value & 127 | 128)
            value >>= 7
        return [*out, value & 127]

    def block(self):
        """The bytes of a block, its size in front."""
        size, out = self.number("uleb128"), []
        while len(out) < size:
            out += self.value()
        if len(out) != size or size > 127:
            raise ValueError
        return [size, *out]


def common(reader):
    """(fields of functions' tables, directives of those with handlers but for the place of these) of what tables share."""
    reader.text("long")
    reader.skip_label()
    reader.number("long")
    reader.number("byte")
    fields, head = reader.text("string").strip('"'), ""
    if [reader.number("uleb128"), reader.number("sleb128"), reader.number("byte", "uleb128")] != [1, -8, 16]:
        raise ValueError
    if fields[:1] == "z":
        reader.number("uleb128")
    for field in fields[1:]:
        encoding = reader.number("byte")
        if field == "P":
            head += f"\t.cfi_personality {encoding:#x},{reader.text('long').removesuffix('-.')}\n"
        elif field == "L":
            head += f"\t.cfi_lsda {encoding:#x},"
        elif field != "R":
            raise ValueError
    kinds = "byte", "uleb128", "uleb128", "byte", "uleb128"
    if [reader.number(kind) for kind in kinds] != [12, 7, 8, 0x90, 1]:
        raise ValueError
    reader.text("align")
    reader.skip_label()
    return fields, head


def instruction(reader):
    """The directive of an instruction."""

    def value():
        return reader.number("uleb128")

    def escape(code, *operands):
        return f"\t.cfi_escape {','.join(f'{byte:#x}' for byte in (code, *operands))}\n"

    code = reader.number("byte")
    match code >> 6, code & 63:
        case 2, register:
            return f"\t.cfi_offset {register}, {-8 * value()}\n"
        case 3, register:
            return f"\t.cfi_restore {register}\n"
        case 0, 0xA:
            return "\t.cfi_remember_state\n"
        case 0, 0xB:
            return "\t.cfi_restore_state\n"
        case 0, 0xC:
            return f"\t.cfi_def_cfa {value()}, {value()}\n"
        case 0, 0xD:
            return f"\t.cfi_def_cfa_register {value()}\n"
        case 0, 0xE:
            return f"\t.cfi_def_cfa_offset {value()}\n"
        case 0, 0x2E:
            return escape(code, *reader.value())
        case 0, 0xF:
            return escape(code, *reader.block())
        case 0, (0x10 | 0x16):
            return escape(code, *reader.value(), *reader.block())
    raise ValueError


def tables(lines, at):
    """({label of a part of a function: its table}, index behind them) of the compiler's tables behind line `at`."""
    reader, out, fields, with_handlers = Reader(lines, at + 1), {}, "", ""
    while label := reader.label():
        reader.skip_label()
        if label.startswith(".Lframe"):
            fields, with_handlers = common(reader)
            continue
        reader.text("long")
        reader.skip_label()
        reader.text("long")
        begin = reader.text("long").removesuffix("-.")
        end = reader.text("long").removesuffix("-" + begin)
        head, handlers = ["\t.cfi_startproc\n"], "0"
        if fields[:1] == "z" and reader.number("uleb128") and "L" in fields:
            handlers = reader.text("long").removesuffix("-.")
        if handlers != "0":
            head += f"{with_handlers}{handlers}\n".splitlines(keepends=True)
        place, at_label = begin, {}
        while not lines[reader.at].startswith("\t.align"):
            if lines[reader.at].split() == [".byte", "0x4"]:
                reader.at += 1
                place = reader.text("long").split("-")[0]
            else:
                at_label.setdefault(place, []).append(instruction(reader))
        reader.text("align")
        reader.skip_label()
        out[begin] = Table(end, handlers, head, at_label)
    return out, reader.at


# A table of handlers by which a function lets no exception pass and catches none.
NO_HANDLERS = re.compile(
    r"(\.LLSDA(\w+)):\n\t\.byte\t0xff\n\t\.byte\t0xff\n\t\.byte\t0x1\n"
    r"\t\.uleb128 \.LLSDACSE\2-\.LLSDACSB\2\n\.LLSDACSB\2:\n\.LLSDACSE\2:\n"
)
# The section of a function's table of handlers. The linker leaves out what belongs to a section that it leaves out.
HANDLERS = re.compile(r'(\t\.section\t\.gcc_except_table\.([^\s,]+))(?:,"a",@progbits)?\n')


def section_of(line):
    found = re.match(r"\t\.section\t([^,\n]*)|\t(\.text)\n", line)
    return found and (found[1] or found[2])


def with_rows(lines):
    """The lines with directives in place of the compiler's tables; as they are where it wrote something else."""
    begins = [i for i, line in enumerate(lines) if section_of(line) == ".eh_frame"]
    if len(begins) != 1:
        return lines
    try:
        by_label, end = tables(lines, begins[0])
    except (ValueError, IndexError):
        return lines
    text = "".join(lines[: begins[0]] + lines[end:])
    none = {found[1] for found in NO_HANDLERS.finditer(text)}
    lines = HANDLERS.sub(r'\1,"ao",@progbits,\2' + "\n", NO_HANDLERS.sub("", text)).splitlines(keepends=True)

    out, home, i = [], None, 0
    while i < len(lines):
        home = section_of(lines[i]) or home
        out.append(lines[i])
        table = by_label.get(lines[i][:-2])
        i += 1
        if not table:
            continue
        part = [*table.head, *table.rows.get(out[-1][:-2], [])]
        begin = i
        while lines[i] != table.end + ":\n":
            section = section_of(lines[i])
            if section and section != home and section.startswith((".text", ".gcc_except_table")):
                break
            part.append(lines[i])
            part += table.rows.get(lines[i][:-2], [])
            i += 1
        if table.handlers in none or not any(is_call(line) for line in part):
            out += lines[begin:i]
        else:
            out += function([*part, "\t.cfi_endproc\n"])
    return out


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
