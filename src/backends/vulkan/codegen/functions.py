"""Writes GLSL and C++ from elementwise/functions.txt, whose head describes it.

GLSL: glsl/SECTION_TYPE.inc, the cases of a switch over the function's code. C++: include/shaders/functions.h,
the codes:
for [unary] and [binary] a function of the operator's enum for each type, for [activation] an enum.
"""

import re

TYPES = ('f32', 'f64', 'int')


def typed(expression, kind):
    """The expression with its numbers and predicates as the type wants them."""
    if kind == 'f64':
        expression = re.sub(r'(?<![\w.])(\d+\.\d+(?:e-?\d+)?)', r'\1LF', expression)
        return expression.replace('is_nan(', 'isnan(').replace('is_inf(', 'isinf(')
    return re.sub(r'(?<![\w.])(\d+)\.0\b', r'T(\1)', expression) if kind == 'int' else expression


def read_functions(path):
    """{section: [(name, {type: expression})]}"""
    sections, rows = {}, None
    for line in path.read_text().split('\n'):
        if match := re.fullmatch(r'\[(\w+)\]', line):
            rows = sections.setdefault(match[1], [])
        elif match := re.fullmatch(r'(\w*)\s+((?:f32|f64|int)(?: (?:f32|f64|int))*)\s{2,}(.+)', line):
            if match[1]:
                rows.append((match[1], {}))
            rows[-1][1].update({kind: typed(match[3], kind) for kind in match[2].split()})
        elif line and not line.startswith('#'):
            raise ValueError(f'{path}: cannot read "{line}"')
    return sections


def first_code(section):
    return 1 if section == 'activation' else 0


def codes_header(sections):
    lines = ['// Written by functions.py from elementwise/functions.txt.', '#pragma once', '',
             '#include "ops/elementwise/elementwise.h"', '', 'namespace smelt::vulkan::shaders {', '',
             '/// What activate() of activation.glsl takes.',
             'enum ActivationCode : uint32_t {', '  kActNone,',
             *[f'  kAct{name},' for name, _ in sections['activation']], '};']
    for section in ('unary', 'binary'):
        enum = 'smelt::' + section.capitalize()  # shaders have interfaces of these names
        for kind in TYPES:
            lines += ['', f'/// The function\'s code in {section} shaders of {kind} values; -1: they lack it.',
                      f'constexpr int {section}_code_{kind}({enum} fn) {{', '  switch (fn) {']
            lines += [f'    case {enum}::k{name}: return {code};'
                      for code, (name, expressions) in enumerate(sections[section]) if kind in expressions]
            lines += ['    default: return -1;', '  }', '}']
    return '\n'.join([*lines, '', '}  // namespace smelt::vulkan::shaders', ''])


def write_functions(path, output_dir, write):
    sections = read_functions(path)
    for section, rows in sections.items():
        for kind in TYPES:
            cases = [f'case {code}: return {expressions[kind]};'
                     for code, (_, expressions) in enumerate(rows, first_code(section)) if kind in expressions]
            if cases:
                write(output_dir / 'glsl' / f'{section}_{kind}.inc', '\n'.join(cases) + '\n')
    write(output_dir / 'include' / 'shaders' / 'functions.h', codes_header(sections))
