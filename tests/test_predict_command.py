"""`oneof predict` and `oneof export` as a person meets them."""

import numpy as np
import polars as pl
import pytest

import oneof
from oneof import Candidates, PartialLabelClassifier
from oneof.app.cli import main
from tests.test_inputs import problem

X, Y, MASK = problem()
NAMES = np.array(["ant", "bee", "cow"])
FRAME = pl.DataFrame(X, schema=list("abcd"))


@pytest.fixture
def program(capsys):
    """Runs the program inside this process; gives its exit code, output and errors."""

    def run(*arguments):
        code = 0
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code or 0
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run


@pytest.fixture(scope="module")
def model():
    made = PartialLabelClassifier("proden", hidden=(8,), epochs=4, device="cpu")
    made.fit(FRAME, Candidates.from_mask(MASK, NAMES))
    return made


@pytest.fixture
def folder(model, tmp_path):
    model.save(tmp_path / "m")
    FRAME.with_columns(id=pl.Series([f"row{i}" for i in range(len(X))])).write_csv(tmp_path / "new.csv")
    return tmp_path / "m"


def test_predict_with_everything(model, folder, program, tmp_path):
    oneof.load(folder).calibrate(FRAME, NAMES[Y], probabilities=False).save(folder)
    out = tmp_path / "p.parquet"
    arguments = ["--reject-below", "0.7", "--coverage", "0.8", "--allowed", "ant", "cow", "--keep", "id"]
    code, text, err = program(
        "predict", folder, tmp_path / "new.csv", "--out", out, *arguments, "--batch", "7", "--device", "cpu"
    )
    assert (code, err) == (0, "")
    made = pl.read_parquet(out)
    assert f"90 predictions, mean confidence {made['confidence'].mean():.1%}" in text
    assert f"{made['label'].null_count()} rows without a label" in text
    assert f"{made['set'].list.len().mean():.2f} classes per set" in text
    assert set(made["label"]) - {None} <= {"ant", "cow"}
    assert made["p(bee)"].max() == 0
    assert made["id"][3] == "row3"
    p = model.predict_proba(FRAME, allowed=["ant", "cow"])
    np.testing.assert_allclose(made.select("^p.*$").to_numpy(), p, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--coverage", "0.9"], "prediction sets need calibration rows, and no labelled rows were given"),
        (["--allowed", "cov"], "did you mean 'cow'?"),
        (["--batch", "0"], "batch is 0"),
        (["--reject-below", "-1"], "reject_below is -1.0"),
        (["--keep", "ID"], 'no column "ID"'),
        (["--out", "p.xls"], "p.xls ends in '.xls'"),
        (["--device", "abacus"], "abacus"),
    ],
)
def test_errors_in_one_line(folder, program, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    code, out, err = program("predict", folder, "new.csv", *arguments)
    assert (code, out) == (1, "")
    assert err.startswith("oneof: ")
    assert words in err
    assert not (tmp_path / "predictions.csv").exists()


@pytest.mark.parametrize(("coverage", "labels"), [(0.9, 100), (0.99, 495)])
def test_sets_of_a_model_without_calibration_are_told_about_clean_labels(folder, program, coverage, labels):
    code, _, err = program("predict", folder, folder.parent / "new.csv", "--coverage", coverage)
    assert code == 1
    assert f"--coverage {coverage}: prediction sets need calibration rows" in err
    assert f"at least {labels} trusted labels" in err
    assert "--clean" in err
    assert "calibrate(" not in err
    assert "selection_share" not in err


def test_a_model_folder_with_a_pickle_is_refused(folder, program, tmp_path):
    (folder / "model.pkl").write_bytes(b"x")
    code, _, err = program("predict", folder, tmp_path / "new.csv")
    assert code == 1
    assert "pickles can run code and are never read" in err


@pytest.mark.parametrize("kind", ["probabilities", "logits"])
def test_export(model, folder, program, tmp_path, kind):
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra `export` is not installed")
    more = ["--logits"] if kind == "logits" else []
    code, out, _ = program("export", folder, "--out", tmp_path / "m.onnx", *more)
    assert code == 0
    assert f"4 features in, {kind} of 3 classes out" in out
    assert "compared with torch: largest difference" in out
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    (made,) = session.run([kind], {"features": X})
    p = np.exp(made) / np.exp(made).sum(axis=1, keepdims=True) if more else made
    np.testing.assert_allclose(p, model.predict_proba(FRAME), atol=1e-5)
