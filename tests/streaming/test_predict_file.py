"""Predictions of a file are those of the model, whatever the batches; the file appears when it is whole."""

import csv
import json
import os
import warnings

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneof import Candidates, PartialLabelClassifier
from oneof.app.streaming import Wishes, predict_file, predict_tables
from oneof.tables.encoding import TableEncoder
from oneof.tables.errors import DataError
from oneof.tables.reader import read_table
from tests.test_inputs import problem

X, Y, MASK = problem()
NAMES = np.array(["ant", "bee", "cow"])
FRAME = pl.DataFrame(X, schema=list("abcd")).with_columns(id=pl.Series([f"r{i}" for i in range(len(X))]))


def fitted(classes=NAMES, x=X, **more):
    model = PartialLabelClassifier("proden", hidden=(8,), epochs=4, device="cpu", **more)
    return model.fit(x, Candidates.from_mask(MASK, classes))


@pytest.fixture(scope="module")
def model():
    made = fitted()
    made.feature_names_in_ = np.array(list("abcd"), dtype=object)
    return made.calibrate(X, NAMES[Y])


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "t.parquet"
    FRAME.select("d", "id", "b", "a", "c").write_parquet(path, row_group_size=17)
    return path


def expected(model, **more):
    made = model.predict_proba(FRAME.select(list("abcd")), **more)
    return made, model.classes_[made.argmax(axis=1)].tolist()


@given(batch=st.integers(1, 100))
@settings(max_examples=15)
def test_parquet_to_parquet(model, table, tmp_path_factory, batch):
    out = tmp_path_factory.getbasetemp() / "p.parquet"
    done = predict_file(model, table, out, Wishes(batch=batch, keep=("id",)))
    made = pl.read_parquet(out)
    p, labels = expected(model)
    assert made.columns == ["id", "row", "label", "confidence", "p(ant)", "p(bee)", "p(cow)"]
    assert made["row"].to_list() == list(range(90))
    assert made["id"].to_list() == FRAME["id"].to_list()
    assert made["label"].to_list() == labels
    np.testing.assert_allclose(made.select("^p.*$").to_numpy(), p, atol=1e-6)
    assert (done.rows, done.rejected) == (90, 0)
    assert done.confidence == pytest.approx(p.max(axis=1).mean(), abs=1e-6)


@pytest.mark.parametrize("batch", [None, 1])
def test_what_a_row_lacks_or_leaves_open_does_not_depend_on_its_batch(tmp_path, batch):
    """A decimal comma that could mean thousands (3,605), and a field that some JSON records leave out."""
    cells = [{"a": f"{a:.3f}".replace(".", ","), "h": h} for a, h in (X[:, :2] * 5).tolist()]
    lines = [{"a": cell["a"]} if i % 3 == 0 else cell for i, cell in enumerate(cells)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = read_table(tmp_path / "t.jsonl")
    encoder = TableEncoder.fit(rows)
    model = fitted(x=encoder.transform(rows)).with_encoder(encoder)
    predict_file(model, tmp_path / "t.jsonl", tmp_path / "p.csv", Wishes(batch=batch))
    made = pl.read_csv(tmp_path / "p.csv").select("^p.*$").to_numpy()
    np.testing.assert_allclose(made, model.predict_proba(pl.DataFrame(rows.columns)), atol=1e-4)
    (tmp_path / "t.jsonl").write_text('{"a": "1,5"}\n' * 3)
    with pytest.raises(DataError, match='no column "h"'):  # in no row at all
        predict_file(model, tmp_path / "t.jsonl", tmp_path / "p.csv", Wishes(batch=batch))


def test_many_parts_are_joined_in_order(model, table, tmp_path, monkeypatch):
    monkeypatch.setattr("oneof.tables.writers.PART_BYTES", 100)
    predict_file(model, table, tmp_path / "p.parquet", Wishes(batch=7))
    assert pl.read_parquet(tmp_path / "p.parquet")["row"].to_list() == list(range(90))
    assert os.listdir(tmp_path) == ["p.parquet"]


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet"])
def test_everything_at_once(model, table, tmp_path, kind):
    out = tmp_path / f"p.{kind}"
    wishes = Wishes(
        coverage=0.8, allowed=("ant", "bee"), reject_below=0.7, probabilities=False, keep=("id",), batch=32
    )
    done = predict_file(model, table, out, wishes)
    p, labels = expected(model, allowed=["ant", "bee"])
    x = FRAME.select(list("abcd"))
    wanted = [None if row.max() < 0.7 else label for row, label in zip(p, labels)]
    sets = [NAMES[row].tolist() for row in model.predict_set(x, 0.8, allowed=["ant", "bee"])]
    if kind == "parquet":
        made = pl.read_parquet(out)
        assert made["label"].to_list() == wanted
        assert made["set"].to_list() == sets
    else:
        with open(out, newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t" if kind == "tsv" else ","))
        assert list(rows[0]) == ["id", "row", "label", "confidence", "set"]
        assert [row["label"] or None for row in rows] == wanted
        assert [row["set"].split("|") for row in rows] == sets
    assert done.rejected == wanted.count(None)
    assert done.set_size == pytest.approx(np.mean([len(s) for s in sets]))


def test_number_classes_keep_their_type(tmp_path, table):
    model = fitted(classes=[3, 5, 7])
    model.feature_names_in_ = np.array(list("abcd"), dtype=object)
    predict_file(model, table, tmp_path / "p.parquet", Wishes(allowed=("3", "7")))
    assert set(pl.read_parquet(tmp_path / "p.parquet")["label"]) == {3, 7}


def test_a_model_with_an_encoder_takes_the_table(tmp_path):
    columns = {"size": X[:, 0].tolist(), "colour": [["red", "blue", None][k] for k in Y], "odd": ["x"] * 90}
    encoder = TableEncoder.fit({name: columns[name] for name in ("size", "colour")})
    x = encoder.transform(columns)
    model = fitted(x=x)
    model.encoder_ = encoder
    pl.DataFrame(columns).write_parquet(tmp_path / "t.parquet")
    pl.DataFrame(columns).write_csv(tmp_path / "t.csv")
    for kind in ("parquet", "csv"):
        predict_file(model, tmp_path / f"t.{kind}", tmp_path / "p.parquet", Wishes(batch=20))
        made = pl.read_parquet(tmp_path / "p.parquet")
        np.testing.assert_allclose(made.select("^p.*$").to_numpy(), model.predict_proba(x), atol=1e-6)
    pl.DataFrame({"size": [1.0]}).write_csv(tmp_path / "less.csv")
    with pytest.raises(DataError, match="colour"):
        predict_file(model, tmp_path / "less.csv", tmp_path / "q.csv")


def test_a_model_without_names_takes_all_columns_but_those_kept(tmp_path):
    model = fitted()
    FRAME.write_parquet(tmp_path / "t.parquet")
    predict_file(model, tmp_path / "t.parquet", tmp_path / "p.parquet", Wishes(keep=("id",)))
    made = pl.read_parquet(tmp_path / "p.parquet").select("^p.*$").to_numpy()
    np.testing.assert_allclose(made, model.predict_proba(X), atol=1e-6)
    with pytest.raises(DataError, match="no feature names"):
        predict_file(model, tmp_path / "t.parquet", tmp_path / "p.parquet")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_errors_name_the_row_of_the_file_and_leave_nothing(model, tmp_path, kind):
    (tmp_path / "out").mkdir()
    values = X.astype(object)
    values[50, 1] = None
    frame = pl.DataFrame(values.tolist(), schema=list("abcd"), orient="row")
    getattr(frame, f"write_{kind}")(tmp_path / f"t.{kind}")
    with pytest.raises(DataError, match=r'row 10, column "b"') as caught:
        predict_file(model, tmp_path / f"t.{kind}", tmp_path / "out" / f"p.{kind}", Wishes(batch=20))
    assert "Rows are counted from row 40 of the file on." in str(caught.value)


def test_a_number_too_large_for_the_network_is_an_error_about_the_file(model, tmp_path):
    (tmp_path / "t.csv").write_text("a,b,c,d\n1,2,3,4\n1,1e308,3,4\n")
    with pytest.raises(DataError, match=r"X\[1, 1\] = 1e\+308 is too large"):
        predict_file(model, tmp_path / "t.csv", tmp_path / "p.csv")
    assert not (tmp_path / "p.csv").exists()
    assert {"t.csv"} == {name for name in os.listdir(tmp_path) if not name.startswith("m")}


def test_settings_that_cannot_be_meant(model, table, tmp_path):
    for wishes, words in (
        (Wishes(reject_below=-1), "reject_below"),
        (Wishes(coverage=2), "coverage is 2"),
        (Wishes(allowed=("bea",)), "did you mean 'bee'"),
        (Wishes(keep=("label",)), 'column "label" cannot be kept'),
        (Wishes(keep=("nothing",)), 'no column "nothing"'),
    ):
        with pytest.raises(ValueError, match=words):
            predict_file(model, table, tmp_path / "p.csv", wishes)
    with pytest.raises(DataError, match=r"ends in '.xls'"):
        predict_file(model, table, tmp_path / "p.xls")
    with pytest.raises(ValueError, match="calibration rows"):
        predict_file(fitted(), table, tmp_path / "p.csv", Wishes(coverage=0.9))
    assert not os.listdir(tmp_path)


def test_progress_is_told(model, table, tmp_path):
    seen = []
    predict_file(model, table, tmp_path / "p.csv", Wishes(batch=40), seen.append)
    assert seen == [40, 80, 90]


def test_a_folder_of_images(tmp_path):
    Image = pytest.importorskip("PIL.Image", reason="reading images needs pillow")
    rng = np.random.default_rng(0)
    y = np.arange(30) % 2
    images = (rng.integers(0, 60, size=(30, 8, 8, 3)) + 150 * y[:, None, None, None]).astype(np.uint8)
    (tmp_path / "pictures" / "more").mkdir(parents=True)
    for i, pixels in enumerate(images):
        place = tmp_path / "pictures" / ("more" if i % 2 else ".") / f"{i:02d}.png"
        Image.fromarray(pixels).save(place)
    mask = np.eye(2, dtype=bool)[y]
    mask[::5] = True
    model = PartialLabelClassifier("proden", net="lenet", epochs=5, device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(images.transpose(0, 3, 1, 2), mask)
    out = tmp_path / "answers.csv"
    done = predict_file(model, tmp_path / "pictures", out, Wishes(batch=7))
    assert done.rows == 30
    table = read_table(out)
    assert table.column("file")[0] == "00.png"
    assert table.column("file")[-1] == "more/29.png"
    labels = model.predict(images.transpose(0, 3, 1, 2))
    expected = {f"{'more/' if i % 2 else ''}{i:02d}.png": int(k) for i, k in enumerate(labels)}
    assert {f: int(k) for f, k in zip(table.column("file"), table.column("label"))} == expected
    with pytest.raises(DataError, match="no column 'id' to keep"):
        predict_file(model, tmp_path / "pictures", out, Wishes(keep=("id",)))
    (tmp_path / "pictures" / "04.png").write_bytes(b"no image")
    with pytest.warns(UserWarning, match=r"cannot be read, left out: 1 .*04\.png"):
        assert predict_file(model, tmp_path / "pictures", out, Wishes(batch=1)).rows == 29
    table = read_table(out)
    assert table.column("row") == list(map(str, range(29)))
    assert {f: int(k) for f, k in zip(table.column("file"), table.column("label"))} == {
        name: k for name, k in expected.items() if name != "04.png"
    }


def test_images_in_an_array(tmp_path):
    """`oneof fit x.npz --candidates seen --net lenet` learns from such a file: it can be predicted too."""
    x = np.random.default_rng(0).integers(0, 255, size=(30, 3, 8, 8)).astype(np.uint8)
    np.savez(tmp_path / "x.npz", x=x, seen=np.array(["crow|jay", ""] * 15))
    np.save(tmp_path / "small.npy", x[:, :, :4])
    model = PartialLabelClassifier("proden", net="lenet", epochs=1, device="cpu")
    model.fit(x, Candidates.from_labels(np.array(["crow", "jay"] * 15)))
    out = tmp_path / "answers.csv"
    assert predict_file(model, tmp_path / "x.npz", out, Wishes(batch=7, keep=("seen",))).rows == 30
    assert read_table(out).column("label") == model.predict(x).tolist()
    with pytest.raises(DataError, match="has 3 x 4 x 8; the model was trained on images of 3 x 8 x 8"):
        predict_file(model, tmp_path / "small.npy", out)


def test_a_folder_for_a_model_of_tables(tmp_path):
    model = PartialLabelClassifier("proden", net="linear", epochs=1, device="cpu").fit(
        np.eye(4), np.eye(4, dtype=bool)
    )
    with pytest.raises(DataError, match="not trained on a folder of images"):
        predict_file(model, tmp_path, tmp_path / "out.csv")


def test_a_table_is_never_replaced_by_its_predictions(tmp_path):
    model = PartialLabelClassifier("proden", net="linear", epochs=1, device="cpu").fit(
        np.eye(4), np.eye(4, dtype=bool)
    )
    np.save(tmp_path / "x.npy", np.eye(4))
    table = tmp_path / "x.csv"
    table.write_text("a,b,c,d\n1,0,0,0\n")
    with pytest.raises(DataError, match="is the table itself"):
        predict_file(model, table, tmp_path / "." / "x.csv")
    with pytest.raises(ValueError, match="reject_below is 80"):
        predict_file(model, table, tmp_path / "out.csv", Wishes(reject_below=80))
    assert table.read_text().startswith("a,b,c,d")


def test_a_folder_with_other_files_is_no_place_for_predictions(model, table, tmp_path):
    (tmp_path / "thesis.csv").write_text("a\n1\n")
    with pytest.raises(DataError, match="holds other files; give another --out"):
        predict_tables(model, table.parent, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.csv"]
