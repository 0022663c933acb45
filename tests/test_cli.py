"""The `oneof` program as a person meets it: help, tables in, tables out, errors in one line, Ctrl-C."""

import csv
import errno
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import oneof
from oneof.app.cli import COMMANDS, GROUPS, command_class, main
from oneof.app.commands.methods import VENUES, bibtex
from oneof.candidates import Candidates
from oneof.candidates.annotations import Annotations
from oneof.tables.candidate_files import save_annotations
from tests.test_inputs import problem

X, Y, MASK = problem()
NAMES = np.array(["ant", "bee", "cow"])
QUICK = ["--epochs", "3", "--method", "proden", "--device", "cpu"]


@pytest.fixture
def oneof_program(capsys):
    """Runs the program inside this process; gives its exit code, output and errors."""

    def run(*arguments):
        try:
            main([str(argument) for argument in arguments])
            code = 0
        except SystemExit as end:
            code = end.code or 0
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run


def start(*arguments, encoding="utf-8"):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": encoding}
    command = [sys.executable, "-m", "oneof", *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding=encoding, env=environment
    )


def cells(row):
    return "|".join(NAMES[row])


def write_table(path, clean=True, columns="abcd", rows=None):
    rows = range(len(X)) if rows is None else rows
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *columns, "labels", "trusted"])
        for i in rows:
            x = [X[i, "abcd".index(name)] for name in columns]
            writer.writerow([f"row{i}", *x, cells(MASK[i]), NAMES[Y[i]] if clean and i % 3 == 0 else ""])
    return path


def read_csv(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted")
    table = write_table(folder / "answers.csv")
    columns = ["--candidates", "labels", "--ignore", "id", "trusted"]
    with pytest.raises(SystemExit) as end:
        main(["fit", str(table), *columns, *QUICK, "--epochs", "20", "--out", str(folder / "model")])
    assert end.value.code == 0
    return folder / "model"


def test_an_option_with_several_values_stands_once(tmp_path, oneof_program):
    table = write_table(tmp_path / "t.csv")
    code, _, err = oneof_program(
        "fit", table, "--candidates", "labels", "--ignore", "id", "--ignore", "trusted"
    )
    assert code == 1
    assert "--ignore is given more than once: write all its values behind one --ignore" in err
    code, _, err = oneof_program("predict", tmp_path, table, "--keep", "id", "--keep=trusted")
    assert "--keep is given more than once" in err


def test_a_full_disk_is_told_with_what_to_do(monkeypatch, oneof_program):
    def run(self):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "out.csv")

    monkeypatch.setattr(command_class("methods"), "run", run)
    code, _, err = oneof_program("methods")
    assert code == 1
    assert err.startswith("oneof: out.csv could not be written: ")
    assert "Free some space there" in err


def test_trusted_labels_name_rows_by_an_id_column_that_was_found(tmp_path, oneof_program):
    table = write_table(tmp_path / "t.csv", clean=False)
    table.write_text(table.read_text().replace("id,", "leaf,", 1))
    ids = [f"row{i}" for i in range(len(X))]
    sets = Candidates.from_sets([list(NAMES[row]) for row in MASK])
    save_annotations(Annotations(sets, tuple(ids)), tmp_path / "candidates.npz")
    (tmp_path / "checked.csv").write_text(f"leaf,label\nrow3,{NAMES[Y[3]]}\nrow4,{NAMES[Y[4]]}\n")
    given = (
        "--candidates",
        tmp_path / "candidates.npz",
        "--clean",
        tmp_path / "checked.csv",
        "--ignore",
        "labels",
    )
    code, out, err = oneof_program("fit", table, *given, "trusted", *QUICK, "--out", tmp_path / "model")
    assert code == 0, err
    assert 'rows are matched by the column "leaf"' in out


# ---- help -------------------------------------------------------------------------------------


def test_version_and_help_in_a_process_of_its_own():
    with start("--version") as process:
        assert process.communicate() == (f"oneof {oneof.__version__}\n", "")
        assert process.returncode == 0
    with start("--help") as process:
        out, err = process.communicate()
        assert process.returncode == 0
        assert err == ""
        assert all(name in out for name in COMMANDS)


def test_help_has_commands_by_what_a_person_wants(oneof_program):
    code, out, err = oneof_program("--help")
    assert (code, err) == (0, "")
    places = [out.index(f"{wish}:") for wish in GROUPS]
    assert places == sorted(places)
    for names in GROUPS.values():
        for name in names:
            (line,) = (line for line in out.splitlines() if line.startswith(f"  {name} "))
            assert 20 < len(line) < 120
    assert oneof_program()[::2] == (2, out)


def test_shells_can_complete_commands_and_options(oneof_program, tmp_path):
    for shell in ("bash", "zsh"):
        code, out, _ = oneof_program("--tyro-print-completion", shell)
        assert code == 0
        assert all(name in out for name in (*COMMANDS, "--candidates", "--clean-weight"))
    file = tmp_path / "oneof"
    assert oneof_program("--tyro-write-completion", "bash", file)[0] == 0
    told = f"source {file}; COMP_WORDS=(oneof re); COMP_CWORD=1; _tyro_oneof; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", told], capture_output=True, text=True)
    assert sorted(done.stdout.split()) == ["report", "review"]


def test_nothing_that_is_printed_names_a_file_of_the_repository(oneof_program):
    """Who has the wheel has no docs/, results/ or benchmarks/."""
    calls = [[command, "--help"] for command in COMMANDS] + [["--help"], ["candidates", "import", "--help"]]
    calls += [["methods", info.name] for info in oneof.list_methods()]
    for call in calls:
        _, out, _ = oneof_program(*call)
        assert not re.search(r"\b(docs|results|benchmarks|tests)/", out), call


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(oneof_program, command):
    code, out, _ = oneof_program(command, "--help")
    assert code == 0
    assert f"usage: oneof {command}" in out
    assert len(out.splitlines()) > 5


def test_every_option_is_explained(oneof_program):
    for command in ("demo", "fit", "predict", "methods"):
        _, out, _ = oneof_program(command, "--help")
        for field in command_class(command).__dataclass_fields__:
            assert field.replace("_", "-") in out.lower()
        # an option without a text shows its default only
        assert not re.search(r"--[\w-]+ [A-Z]+ +\(", out)


@pytest.mark.parametrize(
    "arguments", [[], ["nonsense"], ["fit"], ["fit", "a.csv"], ["methods", "--nonsense"]]
)
def test_wrong_usage_ends_with_2(oneof_program, arguments):
    code, out, err = oneof_program(*arguments)
    assert code == 2
    assert out == ""
    assert "--help" in err


# ---- methods ----------------------------------------------------------------------------------


def test_methods(oneof_program):
    code, out, err = oneof_program("methods")
    assert (code, err) == (0, "")
    assert all(info.name in out for info in oneof.list_methods())
    code, out, _ = oneof_program("methods", "rplg")
    assert code == 0
    assert "NeurIPS 2025" in out
    assert "share of the classifier's own opinion" in out
    assert "author = {Qiao and Xu and Hu and Geng}" in out
    assert oneof_program("methods", "magic")[::2] == (
        1,
        f"oneof: there is no method 'magic'; there are "
        f"{', '.join(info.name for info in oneof.list_methods())}. "
        "One of your own: import its module first, or add --plugin FILE.py.\n",
    )


def test_methods_for_a_program(oneof_program):
    code, out, err = oneof_program("methods", "--json")
    assert (code, err) == (0, "")
    assert [facts["name"] for facts in json.loads(out)] == [info.name for info in oneof.list_methods()]
    facts = json.loads(oneof_program("methods", "proden", "--json")[1])
    assert (facts["year"], facts["venue"], facts["forwards"]) == (2020, "ICML", 1)
    alpha = json.loads(oneof_program("methods", "rplg", "--json")[1])["hyper_parameters"][0]
    assert (alpha["name"], alpha["default"], alpha["low"], alpha["high"]) == ("alpha", 0.5, 0.1, 0.9)


@pytest.mark.parametrize("info", oneof.list_methods(), ids=lambda info: info.name)
def test_every_method_can_be_cited(info):
    entries = bibtex(info).split("\n\n")
    kinds = [entry.partition("{")[0] for entry in entries]
    if info.venue in VENUES:
        assert kinds == ["@inproceedings"]
        assert f"year = {{{info.year}}}" in entries[0]
        assert VENUES[info.venue] in entries[0]
    else:
        assert kinds == ["@software", *(["@inproceedings"] if info.venue == "oneof" else [])]
    for entry in entries:
        assert entry.count("{") == entry.count("}")
        assert re.search(r"author = \{.*\w+.*\}", entry)


def test_a_method_of_ones_own_does_not_cite_this_library():
    info = oneof.list_methods()[0]
    own = type("Own", (), {"__module__": __name__})
    assert "names no paper" in bibtex(replace(info, venue="mine", cls=own))
    assert "@" not in bibtex(replace(info, venue="mine", cls=own))


def test_ctrl_c_says_how_to_go_on(oneof_program, monkeypatch):
    def stopped(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(command_class("theory"), "run", stopped)
    code, out, err = oneof_program("theory")
    assert (code, out) == (130, "")
    assert "no file is left half written" in err
    assert "Give the same command again to go on" in err


PLUGIN = """
from dataclasses import dataclass

from oneof.methods.base import register
from oneof.methods.proden import Proden


@register("mine", year=2026, venue="here", forwards=1, backwards=1)
@dataclass(frozen=True)
class Mine(Proden):
    '''A method of one's own.'''
"""


@pytest.mark.parametrize("given", [["--plugin", "own/mine.py"], ["--plugin=own.mine"]], ids=" ".join)
def test_a_method_in_a_file_of_ones_own(tmp_path, monkeypatch, given):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "mine.py").write_text(PLUGIN)
    monkeypatch.chdir(tmp_path)
    with start("methods", "mine", *given) as process:
        out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert "A method of one's own." in out


@pytest.mark.parametrize("plugin", ["own/mine", "own.mine", "own/mine.py", ""])
def test_a_plugin_that_is_not_there(oneof_program, monkeypatch, plugin):
    monkeypatch.setattr(sys, "path", list(sys.path))
    code, out, err = oneof_program("methods", "--plugin", plugin)
    assert (code, out) == (1, "")
    assert err.startswith(
        f"oneof: --plugin {plugin}: there is no such module; give a file, such as folder/mine.py"
    )


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["methods"]])
def test_a_reader_who_has_seen_enough(arguments):
    with start(*arguments) as process:
        process.stdout.close()  # like `head`, before anything is written
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) in (0, 1)


def test_a_terminal_without_the_letters():
    with start("methods", "rplg", encoding="ascii") as process:
        out, err = process.communicate()
    assert process.returncode == 0
    assert err == ""
    assert "meta_gradient" in out


# ---- fit and predict --------------------------------------------------------------------------


def test_fit_writes_a_model_and_labels(fitted):
    assert {
        "encoder.json",
        "labels.csv",
        "model.json",
        "model.safetensors",
        "report.html",
        "review.json",
        "review.npz",
        "training.safetensors",
    } <= set(os.listdir(fitted))
    assert not (fitted / "run").exists()
    model = oneof.load(fitted)
    assert model.feature_names_in_.tolist() == list("abcd")
    assert model.classes_.tolist() == NAMES.tolist()
    rows = read_csv(fitted / "labels.csv")
    assert [row["row"] for row in rows] == [str(i) for i in range(len(X))]
    assert all(row["label"] in row["candidates"].split("|") for row in rows)
    assert np.mean([row["label"] == NAMES[k] for row, k in zip(rows, Y)]) > 0.9
    assert rows[0]["candidates"] == cells(MASK[0])


def test_predict_matches_columns_by_name(fitted, oneof_program, tmp_path):
    out = tmp_path / "new" / "predictions.csv"
    expected = oneof.load(fitted).predict_proba(pl.DataFrame(X, schema=list("abcd")))
    for columns in ("abcd", "dbca"):
        table = write_table(tmp_path / "new.csv", columns=columns)
        code, text, err = oneof_program("predict", fitted, table, "--out", out)
        assert (code, err) == (0, "")
        assert f"{len(X)} predictions" in text
        rows = read_csv(out)
        assert list(rows[0]) == ["row", "label", "confidence", "p(ant)", "p(bee)", "p(cow)"]
        assert [row["label"] for row in rows] == NAMES[expected.argmax(axis=1)].tolist()
        p = np.array([[float(row[f"p({name})"]) for name in NAMES] for row in rows])
        np.testing.assert_allclose(p, expected, atol=1e-4)


def test_predict_complains_about_what_is_missing(fitted, oneof_program, tmp_path):
    table = write_table(tmp_path / "new.csv", columns="bd")
    code, out, err = oneof_program("predict", fitted, table, "--out", tmp_path / "p.csv")
    assert (code, out) == (1, "")
    assert 'there is no column "a" and 1 more' in err
    assert "a feature the model was trained on" in err
    assert "'b', 'd'" in err
    assert not (tmp_path / "p.csv").exists()
    code, _, err = oneof_program("predict", tmp_path, table)
    assert code == 1
    assert "oneof: there is no model in" in err


def test_clean_column_and_hyper_parameters(oneof_program, tmp_path):
    table = write_table(tmp_path / "t.csv")
    arguments = ["fit", table, "--candidates", "labels", "--clean", "trusted", "--features", *"abcd"]
    arguments += ["--method", "rplg", "--set", "alpha=0.25", "meta_gradient=exact", "meta_hidden=3"]
    arguments += ["--epochs", "4", "--device", "cpu", "--out", tmp_path / "m"]
    code, out, _ = oneof_program(*arguments)
    assert code == 0
    assert "4 numeric columns: 4 features: a, b, c, d" in out
    assert "30 trusted labels were given and all were learned from" in out
    assert "accuracy: not known, all 30 clean rows were learned from" in out
    assert "next:    oneof review" in out
    params = oneof.load(tmp_path / "m").method_.params()
    assert (params["alpha"], params["meta_gradient"], params["meta_hidden"]) == (0.25, "exact", 3)
    transduction = oneof.load(tmp_path / "m").transduction_
    np.testing.assert_array_equal(transduction[::3], np.eye(3)[Y[::3]])


def test_unused_clean_rows_are_a_warning_in_one_line(oneof_program, tmp_path):
    table = write_table(tmp_path / "t.csv")
    arguments = ["fit", table, "--candidates", "labels", "--clean", "trusted", "--ignore", "id", *QUICK]
    code, _, err = oneof_program(*arguments, "--out", tmp_path / "m", "--clean-weight", "0")
    assert code == 0
    assert "oneof: warning: proden does not learn from the clean rows" in err
    assert "estimator.py" not in err
    code, _, err = oneof_program(*arguments, "--out", tmp_path / "m")
    assert (code, "warning" in err) == (0, False)


@pytest.mark.parametrize("kind", ["parquet", "npz", "tsv"])
def test_other_formats_and_number_classes(kind, oneof_program, tmp_path):
    path = tmp_path / f"t.{kind}"
    sets = [np.flatnonzero(row).tolist() for row in MASK]
    if kind == "parquet":
        frame = {**{name: X[:, k] for k, name in enumerate("abcd")}, "labels": sets}
        frame["trusted"] = [int(k) if i % 2 else None for i, k in enumerate(Y)]
        pl.DataFrame(frame).write_parquet(path)
    elif kind == "npz":
        trusted = np.where(np.arange(len(Y)) % 2, Y, np.nan)
        np.savez(path, x=X, labels=MASK, trusted=trusted, classes=np.array([0, 1, 2]))
    else:
        lines = ["\t".join([*"abcd", "labels", "trusted"])]
        for i, (x, labels) in enumerate(zip(X, sets)):
            known = f"{Y[i]}.0" if i % 2 else ""  # as data frames write numbers beside missing ones
            lines.append("\t".join([*map(str, x), json.dumps(labels), known]))
        path.write_text("\n".join(lines))
    arguments = ["--candidates", "labels", "--clean", "trusted", "--clean-weight", "1", *QUICK]
    code, out, err = oneof_program("fit", path, *arguments, "--out", tmp_path / "m")
    assert code == 0, err
    assert f"{len(X) // 2} trusted labels were given" in out
    model = oneof.load(tmp_path / "m")
    expected = model.predict(pl.DataFrame(X, schema=model.feature_names_in_.tolist()))
    assert model.classes_.tolist() == (["0", "1", "2"] if kind == "tsv" else [0, 1, 2])
    code, _, err = oneof_program("predict", tmp_path / "m", path, "--out", tmp_path / "p.csv")
    assert code == 0, err
    assert [row["label"] for row in read_csv(tmp_path / "p.csv")] == expected.astype(str).tolist()


def test_predict_of_matrices_and_models_without_names(oneof_program, tmp_path):
    model = oneof.PartialLabelClassifier("proden", net="linear", epochs=2, device="cpu").fit(X, MASK)
    model.save(tmp_path / "m")
    table = write_table(tmp_path / "t.csv")
    code, _, err = oneof_program("predict", tmp_path / "m", table)
    assert code == 1
    assert "no feature names" in err
    np.savez(tmp_path / "t.npz", x=X[:5])
    assert oneof_program("predict", tmp_path / "m", tmp_path / "t.npz", "--out", tmp_path / "p.csv")[0] == 0
    assert len(read_csv(tmp_path / "p.csv")) == 5
    np.savez(tmp_path / "t.npz", x=X[:, :3])
    code, _, err = oneof_program("predict", tmp_path / "m", tmp_path / "t.npz")
    assert code == 1
    assert "has 3 feature columns, the model was trained on 4 without names" in err
    model.feature_names_in_ = np.array(["x.0", "x.1", "x.2", "x.3"], dtype=object)
    model.save(tmp_path / "m")
    np.savez(tmp_path / "wide.npz", x=np.hstack([X, X]))
    code, _, err = oneof_program("predict", tmp_path / "m", tmp_path / "wide.npz")
    assert code == 1
    assert "has 8 feature columns where the model was trained on 4" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["t.csv", "--candidates", "label"], ['no column "label"', "'labels'"]),
        (["t.csv", "--candidates", "labels", "--features", "id"], ['"id"', "an id", "cannot be a feature"]),
        (["--candidates", "labels"], ["TABLE", "--images FOLDER"]),
        (["t.csv", "--candidates", "labels", "--images", "."], ["not both"]),
        (["t.csv", "--candidates", "labels", "--budget", "soon"], ["--budget soon", "1h30m"]),
        (["t.csv", "--candidates", "labels", "--net", "lenet"], ["0 arrays of images", "--net mlp"]),
        (["t.csv", "--candidates", "labels", "--net", "magic"], ["no net 'magic'"]),
        (["t.csv", "--candidates", "labels", "--clean", "gold.csv"], ["no column of t.csv and no file"]),
        (["t.csv", "--candidates", "labels", "--ignore", "ID"], ['no column "ID"']),
        (["none.csv", "--candidates", "labels"], ["no file none.csv"]),
        (["t.csv", "--candidates", "labels", "--clean", "id", "--ignore", "trusted"], ["clean[0] = 'row0'"]),
        (
            ["t.csv", "--candidates", "labels", "--features", "a", "--set", "alpha"],
            ["--set alpha", "alpha=0.3"],
        ),
        (
            ["t.csv", "--candidates", "labels", "--features", "a", "--method", "rplg", "--set", "beta=1"],
            ["no hyper-parameter 'beta'"],
        ),
        (
            ["t.csv", "--candidates", "labels", "--features", "a", "--set", "alpha=0.3"],
            ["--set alpha=0.3", "--method"],
        ),
        (["t.csv", "--candidates", "labels", "--features", "a", "--epochs", "0"], ["epochs is 0"]),
        (["t.csv", "--candidates", "labels", "--features", "a", "--device", "abacus"], ["'abacus'"]),
        (["t.csv", "--candidates", "labels", "--features", "a", "--method", "oracle"], ["true label"]),
        (["empty.csv", "--candidates", "labels"], ["empty in every row", '"labels" of empty.csv']),
        (["t.csv", "--candidates", "labels", "--features", "a", "--out", "t.csv"], ["t.csv"]),
    ],
)
def test_errors_are_one_message(oneof_program, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "t.csv")
    (tmp_path / "empty.csv").write_text("x,labels\n1,\n2,\n")
    code, _, err = oneof_program("fit", *arguments)
    assert code == 1
    assert err.startswith("oneof: ")
    assert len(err.splitlines()) <= 4
    for word in words:
        assert word in err
    assert not (tmp_path / "model" / "model.json").exists()


def test_an_interrupted_fit_continues(oneof_program, tmp_path):
    table = write_table(tmp_path / "t.csv")
    arguments = ["fit", table, "--candidates", "labels", "--ignore", "id", "trusted", "--method", "proden"]
    arguments += ["--net", "linear", "--device", "cpu", "--epochs", "200"]
    interrupted, whole = tmp_path / "interrupted", tmp_path / "whole"
    with start(*arguments, "--out", interrupted) as process:
        for line in process.stderr:
            if "20/200" in line:
                process.send_signal(signal.SIGINT)
                break
        err = process.stderr.read()
        process.stdout.read()
        assert process.wait(timeout=60) == 130
    assert "finishing this epoch" in err
    assert f"continue from {interrupted / 'run'}" in err
    assert "The same command goes on there" in err
    assert "Traceback" not in err
    assert not (interrupted / "model.json").exists()
    assert 20 <= len((interrupted / "run" / "metrics.jsonl").read_text().splitlines()) < 200
    code, out, _ = oneof_program(*arguments, "--out", interrupted)
    assert code == 0
    assert f"continues the training in {interrupted / 'run'}" in out
    code, out, _ = oneof_program(*arguments, "--out", whole)
    assert code == 0
    assert "continues" not in out
    for name in ("model.safetensors", "training.safetensors", "labels.csv"):
        assert (interrupted / name).read_bytes() == (whole / name).read_bytes()
    assert not (interrupted / "run").exists()


def test_other_settings_do_not_continue_an_interrupted_fit(oneof_program, tmp_path):
    table = write_table(tmp_path / "t.csv")
    (tmp_path / "m" / "run").mkdir(parents=True)
    (tmp_path / "m" / "run" / "config.json").write_text('{"method": "another"}')
    arguments = ["fit", table, "--candidates", "labels", "--ignore", "id", "trusted", *QUICK]
    code, _, err = oneof_program(*arguments, "--out", tmp_path / "m")
    assert code == 1
    assert "holds a run with another" in err
    assert oneof_program(*arguments, "--out", tmp_path / "m", "--no-resume")[0] == 0


# ---- demo -------------------------------------------------------------------------------------


def test_demo_writes_table_picture_and_page(oneof_program, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("oneof.app.commands.demo.open_page", opened.append)
    code, out, err = oneof_program("demo", "--seeds", "1", "--epochs", "3", "--out", tmp_path / "d")
    assert code == 0
    assert "1437 rows, 10 classes" in out
    assert "oracle   digits  seed 1/1  3/3" in err
    rows = read_csv(tmp_path / "d" / "table.csv")
    assert [row["method"] for row in rows] == ["rplg+", "rplg", "proden", "average", "oracle"]
    assert all(0 <= float(row["test_mean"]) <= 100 for row in rows)
    assert all(row["test_std"] == "" for row in rows)
    picture = (tmp_path / "d" / "learning_curves.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000
    page = (tmp_path / "d" / "index.html").read_text(encoding="utf-8")
    assert opened == [(tmp_path / "d" / "index.html").as_uri()]
    assert 'src="learning_curves.png"' in page
    assert page.count('<div class="row"><svg') == 12
    assert all(f"<td>{row['method']}</td>" in page for row in rows)
    assert "$" not in page
    code, _, err = oneof_program("demo", "--seeds", "0")
    assert (code, err) == (1, "oneof: --seeds 0: give a number of at least 1.\n")


def test_too_little_memory_is_said_in_words(monkeypatch, capsys):
    def full(self):
        raise MemoryError

    monkeypatch.setattr("oneof.app.commands.methods.Methods.run", full)
    with pytest.raises(SystemExit) as end:
        main(["methods"])
    assert end.value.code == 1
    assert "oneof: there is not enough memory" in capsys.readouterr().err
