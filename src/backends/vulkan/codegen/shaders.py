"""Reads the compute shaders of the Vulkan back-end and writes what the build and the C++ side need to know of them.

usage: shaders.py SOURCE_DIR OUTPUT_DIR     SOURCE_DIR: src/backends/vulkan, whose FAMILY/*.comp are the shaders

A shader's comment declares its variants, one template a line behind "//@":

    //@ [Interface:] NAME [DEFINE[=VALUE]]... [where AXIS!=AXIS]

NAME holds axes and options. An axis {AXIS=a,b} gives one variant a value: the value becomes part of the name and the
macro AXIS its GLSL type (f16 -> float16_t; {AXIS=w8:8} writes the macro's text behind a colon). An option
[_text=FLAG] gives the variants without _text, and those with it and the macro FLAG. Every axis of a type also defines
AXIS_F16 and so on (the type by name), AXIS_VALUE (the type that arithmetic uses), AXIS_INTEGER, AXIS_VECTOR, AXIS_BITS
and AXIS_MIN where they apply; only macros that the shader mentions are passed to the compiler.

The push constants, specialization constants and bindings are read from the GLSL itself, per variant. Variants whose
push constants are alike share an Interface, by default the file's name in CamelCase.

Written to OUTPUT_DIR, only where changed: shaders.txt (name|source|defines, for compile_shaders.cc), shaders.s (embeds
what that writes, FILE.shaders), include/shader_table.inc (one SMELT_SHADER_FILE line a file, one SMELT_SHADER line a
variant) and include/shaders/FILE.h (push constants, specialization
constants and variants of FILE.comp as C++ types).
"""

import itertools
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from functions import write_functions

# Name in variants: GLSL type in buffers, type that arithmetic uses.
TYPES = {
    'f32': ('float', 'float'), 'f16': ('float16_t', 'float'), 'bf16': ('uint16_t', 'float'),
    'f64': ('double', 'double'),
    'i8': ('int8_t', 'int'), 'u8': ('uint8_t', 'int'), 'i16': ('int16_t', 'int'), 'u16': ('uint16_t', 'int'),
    'i32': ('int', 'int'), 'u32': ('uint', 'uint'), 'i64': ('int64_t', 'int64_t'), 'bool': ('uint8_t', 'int'),
    'vec4_f32': ('vec4', 'vec4'), 'vec4_i8': ('i8vec4', 'ivec4'), 'vec4_u8': ('u8vec4', 'ivec4'),
    '8': ('uint8_t', 'uint'), '16': ('uint16_t', 'uint'), '32': ('uint', 'uint'), '64': ('uvec2', 'uvec2'),
}
DIMENSIONS = {'3d': '3', '2d': '2'}

# GLSL type in push constants: C++ type, bytes, alignment.
MEMBERS = {
    'uint': ('uint32_t', 4, 4), 'int': ('int32_t', 4, 4), 'float': ('float', 4, 4), 'double': ('double', 8, 8),
    'ivec2': ('std::array<int32_t, 2>', 8, 8), 'ivec3': ('std::array<int32_t, 3>', 12, 16),
    'ivec4': ('GpuSize', 16, 16),
}


SCALARS = {'uint': 'uint32_t', 'int': 'int32_t', 'bool': 'bool'}


class ShaderError(Exception):
    pass


def axis_macros(axis, value):
    """The macros that an axis defines for one of its values."""
    name, colon, text = value.partition(':')
    if colon:
        return {axis: text}
    if name not in TYPES:
        return {axis: DIMENSIONS.get(name, name)}
    stored, computed = TYPES[name]
    macros = {axis: stored, f'{axis}_{name.upper()}': '', f'{axis}_VALUE': computed}
    if name.startswith('vec4'):
        macros[f'{axis}_VECTOR'] = ''
    elif match := re.fullmatch(r'([iu])(\d+)', name):
        bits = int(match[2])
        macros |= {f'{axis}_INTEGER': '', f'{axis}_BITS': str(bits)}
        if bits < 32:
            macros[f'{axis}_MIN'] = str(-(1 << bits - 1)) if match[1] == 'i' else '0'
    elif name == 'bool':
        macros[f'{axis}_INTEGER'] = ''
    return macros


@dataclass(frozen=True)
class Block:
    """Push constants that shaders share: a macro behind a comment "//@ block TYPE NAME [HEADER]". The C++
    struct TYPE is that of HEADER, or is written to shaders/FILE.h."""
    cpp: str
    name: str
    header: str
    file: str


@dataclass(frozen=True)
class Member:
    """Of push constants; of a block, `kind` is its C++ type."""
    kind: str
    name: str
    count: int  # of an array; 0: none
    offset: int
    size: int
    block: Block = None
    inner: tuple = ()

    @property
    def end(self):
        return self.offset + self.size


@dataclass
class Variant:
    name: str
    interface: str
    macros: dict  # name: text
    kinds: str = ''
    push: list = field(default_factory=list)
    constants: list = field(default_factory=list)


@dataclass
class Interface:
    """What variants of one shader share. A constant that one of them lacks is ignored there."""
    name: str
    push: list
    constants: dict = field(default_factory=dict)  # id: (id, type, name, default)
    variants: list = field(default_factory=list)


def variants_of(line, default_interface):
    """The variants of one template."""
    head = re.match(r'(?:(\w+):\s+)?(\S+)(.*)', line)
    interface, template, rest = head[1] or default_interface, head[2], head[3]
    rest, _, condition = rest.partition(' where ')
    parts = re.split(r'(\{[^}]*\}|\[[^\]]*\])', template)
    choices = []
    for part in parts:
        if part.startswith('{'):
            axis, values = part[1:-1].split('=')
            choices.append([(v.partition(':')[0], axis, v) for v in values.split(',')])
        elif part.startswith('['):
            text, flag = part[1:-1].split('=')
            choices.append([('', None, None), (text, flag, None)])
        else:
            choices.append([(part, None, None)])
    for choice in itertools.product(*choices):
        macros, values = {}, {}
        for _, axis, value in choice:
            if value is not None:
                macros |= axis_macros(axis, value)
                values[axis] = value
            elif axis:
                macros[axis] = ''
        for define in rest.split():
            name, _, text = define.partition('=')
            macros[name] = macros.get(text, text)
        if condition:
            a, b = (values.get(axis.strip()) for axis in condition.split('!='))
            if a == b:
                continue
        yield Variant(''.join(text for text, _, _ in choice), interface, macros)


class Preprocessor:
    """As much of GLSL's preprocessor as tells which declarations a variant has."""

    def __init__(self, include_dirs):
        self.include_dirs = include_dirs
        self.texts = {}

    def blocks(self, path):
        """Blocks that the file and those that it includes declare, by macro."""
        blocks = {}
        for file in self.files(path):
            self.read_blocks(file, blocks)
        return blocks

    @staticmethod
    def read_blocks(path, blocks):
        for cpp, name, header, macro in re.findall(
                r'^//@ block (\S+) (\w+)(?: (\S+))?\n#define (\w+)', path.read_text(), re.M):
            blocks[macro] = Block(cpp, name, header, path.stem)

    def lines(self, path):
        if path not in self.texts:
            text = re.sub(r'/\*.*?\*/', '', path.read_text(), flags=re.S).replace('\\\n', ' ')
            self.texts[path] = [re.sub(r'//.*', '', line).rstrip() for line in text.split('\n')]
        return self.texts[path]

    def included(self, name, path):
        for folder in [path.parent, *self.include_dirs]:
            if (folder / name).exists():
                return folder / name
        raise ShaderError(f'{path}: no file {name}')

    def files(self, path, found=None):
        """The file and all that it includes, whatever the variant."""
        found = {} if found is None else found
        if path not in found:
            found[path] = None
            for line in self.lines(path):
                if match := re.match(r'\s*#include "(.*)"', line):
                    self.files(self.included(match[1], path), found)
        return list(found)

    @staticmethod
    def true(expression, macros):
        expression = re.sub(r'defined\s*\(?\s*(\w+)\s*\)?', lambda m: str(int(m[1] in macros)), expression)
        for _ in range(8):
            expression = re.sub(r'[A-Za-z_]\w*', lambda m: macros.get(m[0], '0') or '0', expression)
        expression = expression.replace('&&', ' and ').replace('||', ' or ')
        return bool(eval(re.sub(r'!(?!=)', ' not ', expression)))  # digits and operators alone are left

    def active(self, path, macros):
        """Lines that are compiled; `macros` takes up what they define."""
        out = []
        stack = []  # of conditionals: [this branch counts, a branch has counted]
        for line in self.lines(path):
            match = re.match(r'\s*#\s*(\w+)\s*(.*)', line)
            word, rest = (match[1], match[2]) if match else (None, None)
            if word in ('ifdef', 'ifndef', 'if'):
                value = (rest in macros) == (word == 'ifdef') if word != 'if' else self.true(rest, macros)
                stack.append([value, value])
            elif word == 'elif':
                stack[-1][0] = not stack[-1][1] and self.true(rest, macros)
                stack[-1][1] |= stack[-1][0]
            elif word == 'else':
                stack[-1] = [not stack[-1][1], True]
            elif word == 'endif':
                stack.pop()
            elif not all(counts for counts, _ in stack):
                continue
            elif word == 'define':
                name, arguments, text = re.match(r'(\w+)(\([^)]*\))?\s*(.*)', rest).groups()
                macros[name] = f'{arguments} {text}' if arguments else text
            elif word == 'include' and not rest.endswith('.inc"'):
                out += self.active(self.included(rest.strip('"'), path), macros)
            elif not word:
                out.append(line)
        return out


def expand(text, macros):
    """Replaces object-like macros."""
    for _ in range(8):
        text = re.sub(r'[A-Za-z_]\w*', lambda m: macros[m[0]] if macros.get(m[0]) else m[0], text)
    return text


def snake(name):
    """kSameShape -> same_shape"""
    return re.sub(r'(?<=[a-z0-9])(?=[A-Z])', '_', name.removeprefix('k')).lower()


def block_of(declarations, macros, blocks):
    """The block that declarations begin with: (Block, its own declarations, what follows); None: it is none."""
    match = re.match(r'([A-Z][A-Z0-9_]*)(?:\(([^)]*)\))?\s*', declarations)
    if not match or match[1] not in blocks:
        return None
    text = macros[match[1]]
    if match[2]:
        parameters, text = re.match(r'\(([^)]*)\)(.*)', text, re.S).groups()
        for parameter, argument in zip(parameters.split(','), match[2].split(',')):
            text = re.sub(rf'\b{parameter.strip()}\b', argument.strip(), text)
        text = re.sub(r'\s*##\s*', '', text)
    return blocks[match[1]], text, declarations[match.end():]


def members_of(declarations, macros, blocks):
    """Members of push constants."""
    members, end = [], 0
    while declarations := declarations.strip():
        if found := block_of(declarations, macros, blocks):
            block, text, declarations = found
            inner = members_of(text, macros, {})
            if end % 4 or any(MEMBERS[m.kind][2] > 4 for m in inner):
                raise ShaderError(f'{block.cpp} is not of words')
            members.append(Member(block.cpp, block.name, 0, end, inner[-1].end, block, tuple(inner)))
            end += inner[-1].end
            continue
        declaration, _, declarations = declarations.partition(';')
        kind, names = re.match(r'(\w+)\s+(.*)', declaration, re.S).groups()
        if kind not in MEMBERS:
            raise ShaderError(f'push constants of type {kind}')
        _, size, alignment = MEMBERS[kind]
        for name in names.split(','):
            name, length = re.fullmatch(r'\s*(\w+)(?:\[(\w+)\])?\s*', expand(name, macros)).groups()
            count = int(length or 0)
            offset = end + -end % alignment
            members.append(Member(kind, name, count, offset, size * max(count, 1)))
            end = members[-1].end
    return members


def read_interface(variant, preprocessor, path):
    macros = {name: text or '' for name, text in variant.macros.items()}
    text = '\n'.join(preprocessor.active(path, macros))
    for number, kind, name, default in re.findall(
            r'layout\(constant_id = (\d+)\) const (\w+) (\w+) = ([^;]+);', text):
        variant.constants.append((int(number), kind, name, default))
    variant.constants.sort()
    numbers = [c[0] for c in variant.constants]
    if len(set(numbers)) != len(numbers) or 0 in numbers:
        raise ShaderError(f'{path}: {variant.name}: two constants of one id')
    if match := re.search(r'layout\(push_constant\) uniform \w+ \{(.*?)\};', text, re.S):
        variant.push = members_of(match[1], macros, preprocessor.blocks(path))
    bindings = {}
    for number, qualifiers, kind in re.findall(
            r'layout\(set = 0, binding = (\d+)[^)]*\)((?: \w+)*?) (buffer|uniform)', text):
        letter = 'b' if kind == 'buffer' else 'w' if 'writeonly' in qualifiers else 'r'
        if bindings.setdefault(int(number), letter) != letter:
            raise ShaderError(f'{path}: {variant.name}: two kinds of binding {number}')
    if sorted(bindings) != list(range(len(bindings))):
        raise ShaderError(f'{path}: {variant.name}: bindings {sorted(bindings)}')
    variant.kinds = ''.join(bindings[i] for i in range(len(bindings)))


def read_shader(path, preprocessor):
    """The variants of a shader."""
    default = ''.join(word.capitalize() for word in path.stem.split('_'))
    found = []
    for line in path.read_text().split('\n'):
        if line.startswith('//@ ') and not line.startswith('//@ block '):
            found += variants_of(line[4:], default)
    if not found:
        raise ShaderError(f'{path}: no //@ line declares variants')
    mentioned = set()
    for file in preprocessor.files(path):
        mentioned |= set(re.findall(r'[A-Za-z_]\w*', '\n'.join(preprocessor.lines(file))))
    interfaces = {}
    for v in found:
        v.macros = {name: text for name, text in v.macros.items() if name in mentioned}
        read_interface(v, preprocessor, path)
        known = interfaces.setdefault(v.interface, Interface(v.interface, v.push))
        if known.push != v.push or any(known.constants.setdefault(c[0], c) != c for c in v.constants):
            raise ShaderError(f'{path}: {v.name} has other push constants than {known.variants[0].name}: name another '
                              f'interface than {v.interface} before its template')
        known.variants.append(v)
    return list(interfaces.values())


def struct_of(members, name, indent=''):
    """A C++ struct with fields at the offsets that GLSL gives them."""
    lines, end = [f'{indent}struct {name} {{'], 0
    for m in members:
        if m.offset > end:
            lines.append(f'{indent}  uint32_t padding_{end}[{(m.offset - end) // 4}] = {{}};')
        cpp = m.kind if m.block else MEMBERS[m.kind][0]
        lines.append(f'{indent}  {cpp} {m.name}{f"[{m.count}]" if m.count else ""};')
        end = m.end
    return [*lines, f'{indent}}};']


def layout_checks(members, name):
    checks = [f'offsetof({name}, {m.name}) == {m.offset}' for m in members] + [f'sizeof({name}) == {members[-1].end}']
    return ['static_assert(' + ' &&\n              '.join(checks) + ');']


def constants_struct(interface):
    """C++ of the specialization constants: one word each, in the order of ids."""
    width = '64' if 0 not in interface.constants else ''
    words, fields = ['width'], [f'    uint32_t width = {width};  ///< of a workgroup']
    known = {c[0]: c for c in interface.constants.values()}
    for number in range(1, max(known, default=0) + 1):
        if number not in known:
            words.append('0u')
            continue
        _, kind, name, default = known[number]
        fields.append(f'    {SCALARS[kind]} {snake(name)} = {default};')
        words.append(f'static_cast<uint32_t>({snake(name)})')
    return ['  struct Constants {', *fields,
            f'    std::array<uint32_t, {len(words)}> to_words() const {{ return {{{", ".join(words)}}}; }}', '  };']


def header(path, interfaces, first):
    """C++ of a shader; `first` is the index of its first variant in all_shaders()."""
    blocks = {m.block for i in interfaces for m in i.push if m.block}
    headers = sorted({b.header or f'shaders/{b.file}.h' for b in blocks if b.header or b.file != path.stem}
                     | {'backends/vulkan/codegen/interface.h'})
    lines = [f'// Written by shaders.py from {path.parent.name}/{path.name}.', '#pragma once', '',
             *[f'#include "{h}"' for h in headers], '', 'namespace smelt::vulkan::shaders {', '']
    for block, members in {m.block: m.inner for i in interfaces for m in i.push if m.block}.items():
        if block.file == path.stem and not block.header:
            lines += [*struct_of(members, block.cpp), *layout_checks(members, block.cpp), '']
    for interface in interfaces:
        bindings = {len(v.kinds) for v in interface.variants}
        lines += [f'struct {interface.name} {{', *struct_of(interface.push, 'Push', '  '), *constants_struct(interface),
                  f'  static constexpr size_t kMinBindings = {min(bindings)}, kMaxBindings = {max(bindings)};',
                  f'  static constexpr uint16_t kFirst = {first}, kCount = {len(interface.variants)};', '};',
                  *layout_checks(interface.push, f'{interface.name}::Push')]
        for v in interface.variants:
            lines.append(f'inline constexpr Variant<{interface.name}> {v.name}{{{first}}};')
            first += 1
        lines.append('')
    return '\n'.join([*lines, '}  // namespace smelt::vulkan::shaders', ''])


def block_header(stem, blocks):
    """C++ of a .glsl file's blocks: of (Block, its members)."""
    lines = [f'// Written by shaders.py from glsl/{stem}.glsl.', '#pragma once', '', '#include <cstddef>',
             '#include <cstdint>', '', 'namespace smelt::vulkan::shaders {', '']
    for block, members in blocks:
        lines += [*struct_of(members, block.cpp), *layout_checks(members, block.cpp), '']
    return '\n'.join([*lines, '}  // namespace smelt::vulkan::shaders', ''])


def write(path, text):
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def main(source_dir, output_dir):
    write_functions(source_dir / 'elementwise' / 'functions.txt', output_dir, write)
    preprocessor = Preprocessor([source_dir / 'glsl', output_dir / 'glsl'])
    shaders = sorted(source_dir.glob('*/*.comp'))
    stems = {path.stem for path in shaders}
    written = {}  # blocks that have no header of their own
    listing, table, assembly, names = [], [], ['.section .rodata'], {}
    for path in shaders:
        interfaces = read_shader(path, preprocessor)
        write(output_dir / 'include' / 'shaders' / f'{path.stem}.h', header(path, interfaces, len(listing)))
        written |= {m.block: m.inner for i in interfaces for m in i.push if m.block and not m.block.header}
        table.append(f'SMELT_SHADER_FILE({path.stem})')
        for symbol, content in ((f'smelt_shaders_{path.stem}', f'.incbin "{output_dir}/{path.stem}.shaders"'),
                                (f'smelt_shaders_end_{path.stem}', '')):
            assembly += ['.balign 4', f'.global {symbol}', f'.hidden {symbol}', f'{symbol}:', content]
        first = len(listing)
        for interface, v in ((i, v) for i in interfaces for v in i.variants):
            if v.name in names:
                raise ShaderError(f'{path}: another shader {v.name} is in {names[v.name]}')
            names[v.name] = path
            defines = ' '.join(f'{name}={text}' if text else name for name, text in v.macros.items())
            constants = max(interface.constants, default=0) + 1
            table.append(f'SMELT_SHADER({v.name}, "{v.kinds}", {v.push[-1].end}, {constants}, {path.stem}, '
                         f'{len(listing) - first})')
            listing.append(f'{v.name}|{path}|{defines}')
    assembly += ['.section .note.GNU-stack,"",%progbits']
    for file in {b.file for b in written} - stems:
        write(output_dir / 'include' / 'shaders' / f'{file}.h',
              block_header(file, [(b, written[b]) for b in written if b.file == file]))
    write(output_dir / 'shaders.txt', '\n'.join(listing) + '\n')
    write(output_dir / 'include' / 'shader_table.inc', '\n'.join(table) + '\n')
    write(output_dir / 'shaders.s', '\n'.join(assembly) + '\n')


if __name__ == '__main__':
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
    except (ShaderError, ValueError) as error:
        sys.exit(str(error))
