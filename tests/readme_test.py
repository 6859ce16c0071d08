#!/usr/bin/env python3
"""Runs the commands of README.md as they stand there, and compares what it says that they print.

    readme_test.py SMELT SOURCE_FOLDER BUILD_FOLDER

A block of commands is indented and begins with a word of COMMANDS; an indented block behind it is what it prints, "..." for
lines left out. ./dev is stood in for by a script that runs the built command; what it would build or test is left out, and so
is an installation (install_test.sh does it). Of a synopsis ("smelt run MODEL [--input FILE]") the options are looked up.
The C++ program is built and run by install_test.sh, the Python program by python/tests.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

COMMANDS = ("./dev", "cd", "cmake", "export", "for", "smelt")
DEV = """#!/bin/sh
command=$1; shift
case $command in
  run) exec {smelt} run "$@" ;;
  smelt) exec {smelt} "$@" ;;
  build | test | python) echo "$command: not in this test" ;;
  *) echo "./dev $command: no such command" >&2; exit 2 ;;
esac
"""
BIN = {
    "smelt": '#!/bin/sh\nexec {smelt} "$@"\n',
    "cmake": "#!/bin/sh\n[ \"$1\" = --install ] || {{ echo \"cmake $1: not --install\" >&2; exit 2; }}\n",
}


def blocks(text):
    """Indented blocks outside fences, as lists of lines."""
    out, block, fenced = [], [], False
    for line in text.splitlines() + [""]:
        fenced ^= line.startswith("```")
        if line.startswith("    ") and not fenced:
            block.append(line[4:])
        elif block:
            out.append(block)
            block = []
    return out


def synopsis_faults(smelt, line):
    """Options of a synopsis that the command does not have."""
    command = re.split(r"\s{2,}", line)[0]
    words = command.split()
    for name in [w.rstrip(",") for w in words[1:2]]:
        known = subprocess.run([smelt, name, "--help"], capture_output=True, text=True)
        if known.returncode != 0:
            yield f"no command smelt {name}"
        for option in re.findall(r"--[a-z0-9-]+", command):
            if not re.search(re.escape(option) + r"\b", known.stdout):
                yield f"smelt {name} has no option {option}"


def main():
    smelt, source, build = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    faults, ran, output = [], 0, ""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        shutil.copytree(source / "examples", root / "examples")  # a link would lead ../../dev to the checkout
        (root / "build").mkdir()
        (root / "build" / "release").symlink_to(build)
        (root / "bin").mkdir()
        for path, text in {root / "dev": DEV, **{root / "bin" / k: v for k, v in BIN.items()}}.items():
            path.write_text(text.format(smelt=smelt))
            path.chmod(0o755)
        for block in blocks((source / "README.md").read_text(encoding="utf-8")):
            if all(line.startswith("smelt ") for line in block):
                for line in block:
                    faults += synopsis_faults(smelt, line)
                continue
            if not block[0].startswith(COMMANDS):
                for line in block:
                    if line.strip() not in ("...", "") and line.rstrip() not in output:
                        faults.append(f"README.md says that this is printed: {line!r}; it is not in\n{output[-1500:]}")
                continue
            script = f"cd {root}; PATH={root}/bin:$PATH\n" + "\n".join(block)
            run = subprocess.run(["bash", "-eu", "-c", script], capture_output=True, text=True, timeout=300)
            ran, output = ran + 1, run.stdout
            if run.returncode != 0:
                faults.append("\n".join([*block, run.stderr]))
    print(*faults, sep="\n")
    print(f"{ran} blocks of commands, {len(faults)} faults")
    sys.exit(bool(faults) or ran < 3)


if __name__ == "__main__":
    main()
