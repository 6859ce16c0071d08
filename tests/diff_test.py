#!/usr/bin/env python3
"""`smelt diff` as a whole: peers where they are installed, memory, the page in a browser where there is one.

    diff_test.py SMELT DIGITS [CORPUS]
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

smelt, digits = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
corpus = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None
wrong = 0


def expect(good, what, *shown):
    global wrong
    if not good:
        wrong += 1
        print("wrong:", what, *shown)


def run(*arguments, python=None):
    env = dict(os.environ, **({"SMELT_PYTHON": python} if python else {}))
    return subprocess.run([smelt, *map(str, arguments)], capture_output=True, text=True, timeout=300, env=env)


def peers():
    """Each peer against smelt on the digits; a missing one says so."""
    python = os.environ.get("SMELT_PYTHON", sys.executable)
    for peer, package, model in (
        ("onnxruntime", "onnxruntime, onnx", "digits.onnx"),
        ("onnxruntime", "onnxruntime, onnx", "digits_qdq.onnx"),
        ("litert", "ai_edge_litert.interpreter", "digits.tflite"),
        ("litert", "ai_edge_litert.interpreter", "digits_int8.tflite"),
        ("executorch", "executorch.runtime", "digits_portable.pte"),
    ):
        file = digits / model
        there = subprocess.run([python, "-c", f"import {package}"], capture_output=True).returncode == 0
        r = run("diff", f"{file}@{peer}", file, "--json", "-", python=python)
        if not there:
            expect(r.returncode == 1 and "is not installed" in r.stderr, f"{peer} is missing", r.stderr)
            print(f"skipped: {peer} is not installed for {python}")
            continue
        expect(r.returncode == 0, f"{model} on {peer}: status {r.returncode}", r.stderr, r.stdout[-600:])
        if r.stdout.startswith("{"):
            result = json.loads(r.stdout)
            paired = len(result["values"])
            print(f"{model} on {peer}: {paired} values paired, differ: {result['differ']}")
            expect(paired >= (2 if peer == "executorch" else 5), f"{model} on {peer}: {paired} values paired")
    r = run("diff", f"{digits / 'digits.onnx'}@onnxruntime", digits / "digits.onnx", python="/nowhere/python")
    expect(r.returncode == 1 and "SMELT_PYTHON names another interpreter" in r.stderr, "no interpreter", r.stderr)


def peak_memory(*arguments):
    """Largest resident memory of a process in kB."""
    process = subprocess.Popen([smelt, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, usage = os.wait4(process.pid, 0)
    return usage.ru_maxrss


def memory():
    """Intermediate values are compared when they are made: diff needs at most 1.5 times the memory of one run."""
    if b"__asan_init" in smelt.read_bytes():
        print("skipped: AddressSanitizer keeps memory that was freed")
        return
    models = [digits / "digits.onnx"]
    if corpus:
        models += [m for m in (corpus / "tflite/nets/mobilenet_v2_100_224_f32/model.tflite",) if m.exists()]
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            written = pathlib.Path(folder) / "written.pte"
            run("convert", model, written)
            alone = max(peak_memory("run", model), peak_memory("run", written))
            for second in (f"{model}@cpu", written):
                both = peak_memory("diff", model, second)
                name = f"{model.name}, {pathlib.Path(second).name}"
                print(f"{name}: {alone / 1000:.1f} MB for a run, {both / 1000:.1f} MB for diff: {both / alone:.2f}")
                expect(both <= 1.5 * alone, f"{name}: diff takes {both / alone:.2f} times a run's memory")


def page():
    """The page in headless Chromium: nodes of both graphs, the choice of a node shows histograms."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if not browser:
        print("skipped: chromium is not installed")
        return
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "page.html"
        run("diff", digits / "digits.onnx", digits / "digits_qdq.onnx", "--rtol", "1e-6", "--html", file)
        script = """<script>window.onerror = e => document.title = "ERROR " + e;
const b = [...document.querySelectorAll('button[data-side=second]')].find(b => b.textContent.includes('Conv'));
b.click();
document.title = [document.querySelectorAll('button[data-side=first]').length,
  document.querySelectorAll('button[data-side=second]').length, document.querySelectorAll('aside svg').length,
  document.querySelectorAll('button.on').length, document.querySelectorAll('button.blame').length,
  document.getElementById('verdict').textContent].join('; ');</script></body>"""
        file.write_text(file.read_text().replace("</body>", script))
        dom = subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", f"--user-data-dir={folder}/p",
             "--dump-dom", f"file://{file}"], capture_output=True, text=True, timeout=120).stdout
        title = re.search("<title>([^<]*)</title>", dom)
        title = title.group(1) if title else ""
        print("page:", title)
        parts = title.split("; ")
        expect(len(parts) == 6 and int(parts[0]) > 3 and int(parts[1]) > int(parts[0]), "nodes of both graphs", title)
        expect(len(parts) == 6 and parts[2:5] == ["3", "2", "1"], "histograms, choice and blame", title)
        expect(len(parts) == 6 and parts[5].startswith("departs first at "), "verdict", title)


peers()
memory()
page()
sys.exit(1 if wrong else 0)
