"""The wheel in a fresh environment that has what the wheel asks for, and nothing else."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

pytest.importorskip("hatchling")
from packaging.requirements import Requirement  # comes with hatchling

import oneof

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def run(*command, cwd=ROOT, **environment):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    command = [str(part) for part in command]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(source, to, *targets):
    run(sys.executable, "-m", "hatchling", "build", "-d", to, *targets, cwd=source)


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    build(ROOT, folder)
    return folder


def core_packages():
    """The installed distributions that oneof needs without any extra, and what these need."""
    open_names = [Requirement(text) for text in PROJECT["dependencies"]]
    found = {}
    while open_names:
        requirement = open_names.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        name = requirement.name.lower()
        if name not in found:
            found[name] = metadata.distribution(name)
            open_names += map(Requirement, found[name].requires or [])
    return found.values()


@pytest.fixture(scope="module")
def fresh(dist, tmp_path_factory):
    """A new environment with the wheel. The big packages are linked, not installed again."""
    folder = tmp_path_factory.mktemp("fresh") / "env"
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    site = Path(run(python, "-c", "import site; print(site.getsitepackages()[0])").strip())
    for package in core_packages():
        here = Path(str(package.locate_file("")))
        tops = {
            Path(file.parts[0]) for file in package.files or () if file.parts[0] not in ("..", "__pycache__")
        }
        for top in tops:
            if not (site / top).exists():
                (site / top).symlink_to(here / top)
    (wheel,) = dist.glob("*.whl")
    # nothing may be fetched: what the wheel asks for is all there
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    run(*pip, "install", "--no-index", "--no-compile", "--quiet", wheel)

    def inside(program, *arguments, cwd):
        return run(
            folder / "bin" / program, *arguments, cwd=cwd, PYTHONPATH="", ONEOF_DATA=str(folder / "data")
        )

    return inside


def test_what_is_in_the_wheel(dist):
    (wheel,) = dist.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "oneof/py.typed" in names
    tracked = run("git", "ls-files", "src/oneof").split() if (ROOT / ".git").exists() else []
    assert {name.removeprefix("src/") for name in tracked} <= {*names}
    assert {name.split("/")[0] for name in names} == {
        "oneof",
        f"{wheel.name.removesuffix('-py3-none-any.whl')}.dist-info",
    }


def test_one_version_everywhere():
    said = re.findall(r"^version: (.+)", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert [*said, oneof.__version__] == [PROJECT["version"]] * 2


def test_the_sdist_makes_the_same_wheel(dist, tmp_path):
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    for name in (
        "README.md",
        "CITATION.cff",
        "CHANGELOG.md",
        "Makefile",
        "constraints.txt",
        "examples/birds.csv",
    ):
        assert (source / name).is_file()
    build(source, tmp_path / "again", "-t", "wheel")
    (again,), (wheel,) = (folder.glob("*.whl") for folder in (tmp_path / "again", dist))
    first, second = (
        {entry.filename: entry.CRC for entry in zipfile.ZipFile(file).infolist()} for file in (wheel, again)
    )
    assert first == second


@pytest.fixture(scope="module")
def used(fresh, tmp_path_factory):
    """A folder in which the program has fitted a model."""
    folder = tmp_path_factory.mktemp("used")
    shutil.copytree(ROOT / "examples", folder / "examples")
    table = ["examples/birds.csv", "--candidates", "seen_as", "--id", "id", "--no-report"]
    fresh("oneof", "fit", *table, "--method", "proden", "--epochs", "3", "--device", "cpu", cwd=folder)
    return folder


def test_on_the_command_line(fresh, used):
    assert fresh("oneof", "--version", cwd=used) == f"oneof {PROJECT['version']}\n"
    fresh("oneof", "predict", "model", "examples/new_birds.csv", "--keep", "id", cwd=used)
    header = (used / "predictions.csv").read_text(encoding="utf-8").splitlines()[0]
    assert header.startswith("id,row,label,confidence")


EXTRAS = {
    "report": ["theory", "--rows", "5000", "--draws", "0"],
    "tables": ["predict", "model", "rows.parquet"],
    "review": ["review", "model", "--no-browser"],
    "export": ["export", "model"],
    "vision": ["fit", "--images", "photos", "--candidates", "sets.npz"],
    "data": ["data", "fetch", "cifar10"],
    "cluster": ["bench", "quick", "--runner", "ray", "--epochs", "1"],
}
CODE = """
import contextlib, io, json, sys
import numpy as np, oneof
from sklearn.datasets import load_iris
from oneof.app.cli import main
from oneof.tables.candidate_files import save_annotations
from oneof.tables.importers import from_answers

save_annotations(from_answers(["a.png", "b.png"], ["ann", "ann"], ["cat", "dog"]), "sets.npz")
x, y = load_iris(return_X_y=True)
sets = [{k, (k + 1) % 3} if i % 2 else {k} for i, k in enumerate(y.tolist())]
model = oneof.PartialLabelClassifier("proden", epochs=20, device="cpu").fit(x, sets)
model.save("iris")
right = np.mean(oneof.load("iris").predict(x) == y)
said = {}
for extra, arguments in json.loads(sys.argv[1]).items():
    with contextlib.redirect_stderr(io.StringIO()) as told, contextlib.redirect_stdout(io.StringIO()):
        try:
            main(arguments)
        except SystemExit as end:
            said[extra] = [end.code, told.getvalue()]
print(json.dumps({"right": right, "said": said, "file": oneof.__file__}))
"""


def test_in_python_and_errors_name_the_extra(fresh, used):
    """All in one process: it takes seconds to start."""
    (used / "rows.parquet").write_bytes(b"PAR1")
    (used / "photos").mkdir()
    for name in "ab":
        (used / "photos" / f"{name}.png").write_bytes(b"\x89PNG")
    told = json.loads(fresh("python", "-c", CODE, json.dumps(EXTRAS), cwd=used))
    assert str(ROOT) not in told["file"], "the wheel, not the checkout"
    assert told["right"] > 0.8
    assert told["said"].keys() == EXTRAS.keys()
    for extra, (status, words) in told["said"].items():
        assert status == 1, (extra, words)
        assert f"pip install 'oneof[{extra}]'" in words, extra
