#!/usr/bin/env python3
"""schema_enums.py OUTPUT FUNCTION SCHEMA ROOT: the enumerations below the table ROOT of a binary flatbuffer schema, as a
header with a C++ function that gives them (src/formats/common/flatbuffer_enums.h)."""

import pathlib
import struct
import sys

BYTE, UBYTE, SHORT, USHORT, INT, UINT, LONG, ULONG = range(3, 11)
SCALARS = {2, BYTE, UBYTE, SHORT, USHORT, INT, UINT, LONG, ULONG}
VECTOR, TABLE, UNION = 14, 15, 16


class Table:
    """A table of a flatbuffer; its fields by their numbers in reflection.fbs."""

    def __init__(self, data, at):
        self.data, self.at = data, at

    def number(self, form, at):
        return struct.unpack_from(form, self.data, at)[0]

    def place(self, field):
        vtable = self.at - self.number("<i", self.at)
        entry = 4 + 2 * field
        offset = self.number("<H", vtable + entry) if entry < self.number("<H", vtable) else 0
        return self.at + offset if offset else None

    def value(self, field, form, default=0):
        at = self.place(field)
        return default if at is None else self.number(form, at)

    def held(self, field):
        at = self.place(field)
        return None if at is None else at + self.number("<I", at)

    def table(self, field):
        at = self.held(field)
        return None if at is None else Table(self.data, at)

    def tables(self, field):
        at = self.held(field)
        places = [at + 4 + 4 * i for i in range(self.number("<I", at))]
        return [Table(self.data, place + self.number("<I", place)) for place in places]

    def text(self, field):
        at = self.held(field)
        return self.data[at + 4 : at + 4 + self.number("<I", at)].decode()


def type_of(table, field):
    """(base type, type of a vector's elements, index of the enumeration or table) of a field of the schema's tables."""
    held = table.table(field)
    return (held.value(0, "<b"), held.value(1, "<b"), held.value(2, "<i", -1)) if held else (0, 0, -1)


class Enums:
    def __init__(self, schema):
        self.objects, self.enums = schema.tables(0), schema.tables(1)
        self.fields, self.tables, self.ranges, self.members = [], [], [], []
        self.by_object, self.by_enum, self.by_union, self.names = {}, {}, {}, {}

    def table(self, index):
        """Where a table stands among those with enumerations; None for one without."""
        if index not in self.by_object:
            self.by_object[index] = None  # of a table that holds itself, which has a place only for other fields
            found = [] if self.objects[index].value(2, "<B") else self.fields_of(index)
            if found:
                self.by_object[index] = len(self.tables)
                self.tables.append((len(self.fields), len(self.fields) + len(found)))
                self.fields += found
        return self.by_object[index]

    def fields_of(self, index):
        found = []
        for field in sorted(self.objects[index].tables(1), key=lambda f: f.value(2, "<H")):
            base, element, held = type_of(field, 1)
            kind, scalar = ("kScalars", element) if base == VECTOR and element in SCALARS else ("kScalar", base)
            if held < 0:
                continue
            if scalar in SCALARS:
                target = self.enumeration(held)
            elif base == UNION:
                kind, target = "kUnion", self.union(held)
            elif TABLE in (base, element):
                kind, target = "kObject" if base == TABLE else "kObjects", self.table(held)
            else:
                continue
            if target is not None:
                name = self.names.setdefault(field.text(0), sum(len(n) + 1 for n in self.names))
                scalar = f"reflection::BaseType({scalar})"
                found.append(f"{{{name}, {field.value(3, '<H')}, {scalar}, SchemaEnums::{kind}, {target}}}")
        return found

    def enumeration(self, index):
        if index not in self.by_enum:
            values = sorted(v.value(1, "<q") for v in self.enums[index].tables(1))
            if values != list(range(values[0], values[-1] + 1)):
                sys.exit(f"{self.enums[index].text(0)}: its values have gaps")
            self.by_enum[index] = len(self.ranges)
            self.ranges.append((values[0], values[-1]))
        return self.by_enum[index]

    def union(self, index):
        """Where the members of a union begin: their count, then the table of each, or -1."""
        if index not in self.by_union:
            tables = {}
            for value in self.enums[index].tables(1):
                base, _, held = type_of(value, 3)
                place = self.table(held) if base == TABLE else None
                tables[value.value(1, "<q")] = -1 if place is None else place
            numbers = range(max(tables) + 1)
            self.by_union[index] = len(self.members)
            self.members += [len(numbers), *(tables.get(number, -1) for number in numbers)]
        return self.by_union[index]


def main():
    output, function, path, root = sys.argv[1:]
    data = pathlib.Path(path).read_bytes()
    enums = Enums(Table(data, struct.unpack_from("<I", data)[0]))
    index = next(i for i, table in enumerate(enums.objects) if table.text(0) == root)
    at = enums.table(index)

    def array(kind, name, entries):
        return f"  static constexpr {kind} {name}[] = {{\n      {', '.join(entries)}}};\n"

    def pairs(entries):
        return [f"{{{first}, {last}}}" for first, last in entries]

    pathlib.Path(output).write_text(
        '#pragma once\n\n#include "formats/common/flatbuffer_enums.h"\n\nnamespace smelt {\n\n'
        f"/// The enumerations below {root}.\ninline SchemaEnums {function}() {{\n"
        "  static constexpr char names[] =\n      "
        + " ".join(f'"{name}\\0"' for name in enums.names)
        + ";\n"
        + array("SchemaEnums::Field", "fields", enums.fields)
        + array("SchemaEnums::Object", "objects", pairs(enums.tables))
        + array("SchemaEnums::Values", "values", pairs(enums.ranges))
        + array("int16_t", "members", [str(m) for m in enums.members])
        + f"  return {{names, fields, objects, values, members, {at}}};\n}}\n\n}}  // namespace smelt\n"
    )


if __name__ == "__main__":
    main()
