#!/usr/bin/env python3
"""Checks of the sources that neither the compiler nor clang-tidy makes; ./dev lint runs them.

    check.py [--update]

words       no out-of-use word (OUT_OF_USE) in a name: identifiers, files, kernels, shaders
kernels     every kernel of src/backends/*/*/kernels.inc is made in a source of its folder that bears its or its family's name
layers      an include points down (ARROWS); no header declares a name that units keep apart (cmake/unity.cmake)
sizes       no source has more than 500 lines, no function more than 80
columns     documents and shaders have lines of 120 columns at most
docstrings  no documentation of a header begins with "The same" or "Whether"
order       no call in a writer has two arguments that write operators or constants: the compiler chooses which is first

What is left of a check stands in baseline.json, count by count; a count above it fails, and --update lowers it.
exceptions.txt lists what is meant to stay: CHECK SUBJECT REASON; and terms of the field with an out-of-use word in them:
term WORD_WORD REASON.
"""

import collections
import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
BASELINE = HERE / "baseline.json"

OUT_OF_USE = set(
    "composed computed fours halves heirs hybrid known lasting lut mover movers pick picked picks pieces piece plain room rooms "
    "settled shorts stored wish wins grid grids requant".split()
)
# Words of use elsewhere that say nothing as (a part of) the name of a kernel, a shader or a file.
OUT_OF_USE_IN_TITLES = set("columns converted dot masks matrix moves order places products put regions rows split sums".split())

LAYERS = {
    "base": "",
    "tensor": "base",
    "graph": "base tensor",
    "ops": "base tensor graph",
    "formats": "base tensor graph ops",
    "passes": "base tensor graph ops",
    "backends": "base tensor graph ops",
    "backends/cpu": "base tensor graph ops backends/backend.h",
    "backends/vulkan": "base tensor graph ops backends/backend.h",
    "runtime": "base tensor graph ops formats passes backends/backend.h",
    "c_api": "base tensor graph runtime",
    "convert": "base tensor graph ops formats passes backends/backend.h runtime",
    "onnxifi": "base tensor graph ops formats passes backends runtime",
    "compare": "base tensor graph ops formats passes backends runtime",
    "cli": "base tensor graph ops formats passes backends runtime convert compare",
}


def tracked(*patterns):
    out = subprocess.check_output(["git", "ls-files", *patterns], cwd=ROOT, text=True)
    return [ROOT / line for line in out.splitlines() if (ROOT / line).is_file()]


def text_of(path):
    return path.read_text(encoding="utf-8")


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def parts(name):
    """The words of an identifier in any case style."""
    return re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name.replace("_", " "))


def code_of(text):
    """C++ or GLSL without comments and strings."""
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', " ", text, flags=re.S)


class Findings:
    def __init__(self):
        self.exceptions = set()
        for line in text_of(HERE / "exceptions.txt").splitlines():
            if line and not line.startswith("#"):
                check, subject, _ = line.split(None, 2)
                self.exceptions.add((check, subject))
        terms = [subject.replace("_", " ") for check, subject in self.exceptions if check == "term"]
        self.terms = re.compile(r"\b(?:%s)\b" % "|".join(terms))
        self.found = collections.defaultdict(list)

    def add(self, check, subject, where):
        """subject: what is counted (a word, a file); where: the line for a person."""
        if (check, subject) not in self.exceptions:
            self.found[check, subject].append(where)

    def words_of(self, name):
        """The words of an identifier, in lower case, but for those of a term of the field."""
        return set(self.terms.sub("", " ".join(parts(name)).lower()).split())


def listed_kernels():
    """(name, path of its list) of every kernel."""
    for path in tracked("src/backends/*/*/kernels.inc"):
        for name in re.findall(r"^(?:#define SMELT_COPY_OP\(op\) )?SMELT_\w+\((\w+),", text_of(path), re.M):
            yield name, path


def declared_shaders():
    """(name, path of its source) of the shader variants that are not named after their source; axes are left out."""
    for path in tracked("src/backends/vulkan/*.comp"):
        names = re.findall(r"^//@ (?!block\b)(\S+)", text_of(path), re.M)
        stems = {re.sub(r"_*(\{[^}]*\}|\[[^]]*\])", "", name) for name in names}
        for name in sorted(stems - {path.stem}):
            yield name, path


def words(findings):
    sources = tracked("*.cc", "*.h", "*.comp", "*.glsl")
    for path in sources:
        seen = set(re.findall(r"[A-Za-z_]\w*", code_of(text_of(path))))
        for name in sorted(seen):
            for word in OUT_OF_USE & findings.words_of(name):
                if ("words", name) not in findings.exceptions:
                    findings.found["words", word].append(f"{name_of(path)}: {name}")
    titles = [(p.stem, name_of(p)) for p in sources]
    titles += [(name, name_of(path)) for name, path in [*listed_kernels(), *declared_shaders()]]
    for title, where in titles:
        for word in (OUT_OF_USE | OUT_OF_USE_IN_TITLES) & findings.words_of(title):
            findings.add("titles", word, f"{where}: {title}")


def kernels(findings):
    """A home's stem is the kernel's name, or that of its family: words of the name, or the folder's with some behind it."""
    for name, path in listed_kernels():
        sources = [p for p in path.parent.glob("*.cc") if not p.stem.endswith(("_test", "_bench"))]
        made = [p.stem for p in sources if re.search(rf"\bmake_{name}\(", text_of(p))]
        made = made or [p.stem for p in sources if re.search(rf"\b{name}\b", text_of(p))]  # by a macro
        known = set(name.split("_")) | {path.parent.name, "kernels"}
        if not any(known.issuperset(stem.split("_")) for stem in made):
            findings.add("kernels", name, f"{name_of(path)}: {name} is made in {', '.join(made) or 'another folder'}")


def layer_of(path):
    head = path.split("/")
    return "/".join(head[:2]) if head[0] == "backends" and head[1] in ("cpu", "vulkan") else head[0]


def layers(findings):
    local = re.search(r"SMELT_FILE_LOCAL_NAMES ([^)]*)\)", text_of(ROOT / "cmake/unity.cmake"))[1].split()
    declares = re.compile(r"^(?:inline |constexpr )*(?:struct|class|enum|using|\w+) (%s)\b" % "|".join(local), re.M)
    for path in tracked("src/*.cc", "src/*.h"):
        name = name_of(path)
        for found in declares.finditer(code_of(text_of(path))) if path.suffix == ".h" else ():
            findings.add("layers", name, f"{name}: a header declares {found[1]}")
        if name.endswith(("_test.cc", "_bench.cc")):
            continue
        layer = layer_of(name[len("src/") :])
        for include in re.findall(r'^#include "([^"]+)"', text_of(path), re.M):
            if not (ROOT / "src" / include).exists() or layer_of(include) == layer:
                continue
            if not any(include == below or include.startswith(below + "/") for below in LAYERS[layer].split()):
                findings.add("layers", name, f"{name} includes {include}")


def sizes(findings):
    for path in tracked("*.cc", "*.h", "*.comp", "*.glsl", "*.py", "*.sh", "dev", "*.cmake"):
        lines = text_of(path).splitlines()
        if len(lines) > 500:
            findings.add("file_size", name_of(path), f"{name_of(path)}: {len(lines)} lines")
        if path.suffix not in (".cc", ".h", ".comp", ".glsl"):
            continue
        # clang-format puts the last brace of a function in the column where it begins.
        begin = None
        for number, line in enumerate(lines):
            if re.match(r"(  )?\S.*\)[^;=]* \{$|(  )?(  ){2,}.*\)[^;=]* \{$", line) and begin is None:
                if not re.match(r" *(namespace|class|struct|enum|union|extern)\b", line):
                    begin = number
            if begin is not None and re.match(r"(  )?\}", line):
                if number - begin > 80:
                    findings.add("function_size", name_of(path), f"{name_of(path)}:{begin + 1}: {number - begin} lines")
                begin = None


def columns(findings):
    for path in tracked("*.md", "*.comp", "*.glsl", "src/backends/vulkan/*_functions.inc"):
        for number, line in enumerate(text_of(path).splitlines()):
            if len(line) > 120:
                findings.add("columns", name_of(path), f"{name_of(path)}:{number + 1}: {len(line)} columns")


def docstrings(findings):
    for path in tracked("src/*.h", "include/*.h", "tests/*.h"):
        for number, line in enumerate(text_of(path).splitlines()):
            if re.search(r"///<? (The same|Whether)\b", line):
                findings.add("docstrings", name_of(path), f"{name_of(path)}:{number + 1}: {line.strip()}")


# Functions of a writer that write nothing.
QUERIES = set(
    "at attrs contents data dtype elements file file_dtype file_type g graph has id in_type inputs ints model "
    "module node number out_id out_type outputs plan producer quant rank real_dtype scope shape size subgraph type "
    "uses wants".split()
)


def arguments(code, begin):
    """The arguments of the call whose parenthesis opens at `begin`; braces are one argument."""
    depth, start, out = 0, begin + 1, []
    for at in range(begin, len(code)):
        c = code[at]
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        if depth == 0 or (depth == 1 and c == ","):
            out.append(code[start:at])
            start = at + 1
        if depth == 0:
            return out
    return out


def order(findings):
    for path in tracked("src/formats/*/writer/*.cc", "src/formats/*/writer/*.h"):
        code = code_of(text_of(path))
        for call in re.finditer(r"\b(?!(?:if|for|while|switch|catch|return|sizeof)\b)\w+\(", code):
            writing = 0
            for argument in arguments(code, call.end() - 1):
                if argument.lstrip().startswith("["):
                    continue  # a lambda
                made = re.findall(r"\b[nswpg]_?\.(?:(?:plan|subgraph|g)\(\)\.)?(\w+)\(", argument)
                writing += any(name not in QUERIES for name in made)
            if writing > 1:
                line = code.count("\n", 0, call.start()) + 1
                findings.add("order", name_of(path), f"{name_of(path)}:{line}: {call[0]}...")


def main():
    findings = Findings()
    for check in (words, kernels, layers, sizes, columns, docstrings, order):
        check(findings)
    counts = collections.defaultdict(dict)
    for (check, subject), where in sorted(findings.found.items()):
        counts[check][subject] = len(where)
    baseline = json.loads(text_of(BASELINE)) if BASELINE.exists() else {}
    failed = False
    for (check, subject), where in sorted(findings.found.items()):
        if len(where) > baseline.get(check, {}).get(subject, 0):
            failed = True
            print(f"{check}: {subject}: {len(where)}, at most {baseline.get(check, {}).get(subject, 0)}")
            print("\n".join(f"  {line}" for line in where[:20]))
    if "--update" in sys.argv[1:]:
        BASELINE.write_text(json.dumps(counts, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        return 0
    for check, subjects in sorted(counts.items()):
        print(f"{check}: {sum(subjects.values())} left in {len(subjects)} subjects")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
