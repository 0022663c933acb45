"""Free text as features: found by its words, the same at prediction as in training, plain data in between."""

import base64
import csv
import json
import sys
import types

import numpy as np
import pandas as pd
import pytest

import oneof
from oneof import PartialLabelClassifier
from oneof.app.cli import main
from oneof.tables import free_text
from oneof.tables.encoding import TableEncoder
from oneof.tables.errors import DataError

SAID = {
    "bug": ["the page {} crashes after the update", "an error {} appears and nothing works"],
    "login": ["I cannot sign in with {} any more", "my password for {} was not accepted"],
    "billing": ["the invoice for {} shows a wrong amount", "please refund the payment of {}"],
}
THINGS = [f"thing{chr(97 + i)}" for i in range(26)]
N = 120
RNG = np.random.default_rng(0)
TRUTH = RNG.integers(0, 3, N)
TEXTS = [
    RNG.choice(SAID[list(SAID)[k]]).format(RNG.choice(THINGS))
    + f" {RNG.choice(['thanks', 'please help'])} {i}"
    for i, k in enumerate(TRUTH)
]
SETS = [";".join(dict.fromkeys([list(SAID)[k], list(SAID)[RNG.integers(0, 3)]])) for k in TRUTH]


def code_of(column, **options):
    return TableEncoder.fit({"a": column, "x": np.arange(len(column)) % 7}, **options).codes[0]


def test_prose_is_found_and_names_are_not():
    assert code_of(TEXTS).kind == "text"
    assert code_of(TEXTS * 2).kind == "text"  # every text twice: still no category
    assert code_of(SAID["bug"] * 60).kind == "category"  # two texts
    for ids in ([f"img_{i}.png" for i in range(N)], [f"note number {i}" for i in range(N)]):
        encoder = TableEncoder.fit({"a": ids, "x": np.arange(N) % 7})
        assert "a different text in every row" in encoder.left_out["a"]
    assert "holds dates" in TableEncoder.fit({"a": ["2026-11-16"] * N, "x": np.ones(N)}).left_out["a"]


def test_words_are_insisted_on_by_name():
    titles = [f"{a} {b}" for a in ("red", "blue", "green") for b in THINGS]
    assert code_of(titles, texts=["a"]).kind == "text"
    assert TableEncoder.fit({"a": titles, "x": np.arange(78) % 7}, ["x"], texts=["a"]).column_names == [
        "x",
        "a",
    ]
    with pytest.raises(DataError, match=r'column "a" has no word that stands in several rows'):
        code_of([f"w{i}" for i in range(30)], texts=["a"])
    with pytest.raises(DataError, match=r'there is no column "b"; there are'):
        code_of(titles, texts=["b"])


def test_rows_are_the_same_from_a_file_and_one_by_one():
    encoder = TableEncoder.fit({"a": TEXTS})
    made = encoder.transform({"a": TEXTS})
    assert made.shape == (N, N // 4)
    assert encoder.describe() == "1 text column: 30 features"
    back = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    assert back == encoder
    alone = np.vstack([back.transform({"a": [text]}) for text in TEXTS])
    np.testing.assert_allclose(alone, made, atol=1e-6)
    weights = dict(zip(encoder.codes[0].words, encoder.codes[0].weights))
    assert "nothing" in weights
    assert "119" not in weights  # in one row only


def test_a_missing_text_is_flagged_and_unknown_words_are_nothing():
    encoder = TableEncoder.fit({"a": [None, *TEXTS]})
    made = encoder.transform({"a": [None, "", "zzz", TEXTS[0]]})
    assert encoder.feature_names[-1] == "a=(missing)"
    assert made[:, -1].tolist() == [1, 1, 0, 0]
    assert not made[:3, :-1].any()
    assert made[3, :-1].any()
    with pytest.raises(DataError, match="holds lists; the model was trained on texts"):
        encoder.transform({"a": [[1.0]]})


@pytest.mark.parametrize(
    "lie",
    [
        {"words": []},
        {"words": ["a", "a"]},
        {"words": [1]},
        {"weights": [1.0]},
        {"directions": "?"},
        {"directions": ""},
        {"directions": base64.b64encode(b"\0" * 6).decode()},
        {"directions": None},
        {"flag": "no"},
        {"code": "import os"},
    ],
)
def test_a_stored_column_that_lies_is_refused(lie):
    stored = TableEncoder.fit({"a": TEXTS}).to_dict()
    stored["columns"][0] |= lie
    with pytest.raises(DataError, match="a stored table encoder cannot be read"):
        TableEncoder.from_dict(stored)


def test_not_finite_directions_are_refused():
    stored = TableEncoder.fit({"a": TEXTS}).to_dict()
    column = stored["columns"][0]
    bad = np.full((2, len(column["words"])), np.nan, dtype="<f4")
    column["directions"] = base64.b64encode(bad.tobytes()).decode()
    with pytest.raises(DataError, match="values that cannot be"):
        TableEncoder.from_dict(stored)


# ---- from file to prediction ------------------------------------------------------------------


def write(path, rows=range(N)):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["ticket", "text", "hours", "tags"])
        writer.writerows([f"T-{i}", TEXTS[i], i % 5, SETS[i]] for i in rows)


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return end.value.code, out + err


FIT = ("--candidates", "tags", "--id", "ticket", "--method", "proden", "--epochs", "15", "--device", "cpu")


def test_from_tickets_to_predictions(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("t.csv")
    code, said = run(capsys, "fit", "t.csv", *FIT)
    assert code == 0, said
    assert "1 numeric and 1 text columns: 31 features: text, hours" in said
    model = oneof.load("model")
    frame = pd.read_csv("t.csv")
    right = model.predict(frame) == np.array(list(SAID))[TRUTH]
    assert right.mean() > 0.8
    assert run(capsys, "predict", "model", "t.csv", "--batch", "7")[0] == 0
    told = pd.read_csv("predictions.csv")["label"]
    assert (told.to_numpy() == model.predict(frame)).all()
    odd = frame.to_csv(index=False, sep="^").replace("thanks", "Grüße")
    (tmp_path / "odd.csv").write_bytes(odd.encode("cp1250"))
    code, said = run(
        capsys, "predict", "model", "odd.csv", "--sep", "^", "--encoding", "cp1250", "--keep", "text"
    )
    assert code == 0, said
    assert any("Grüße" in text for text in pd.read_csv("predictions.csv")["text"])
    assert next(iter(json.loads((tmp_path / "model/review.json").read_text())["features"])) == "text"


def test_data_frames_in_python():
    frame = pd.DataFrame({"text": TEXTS, "hours": np.arange(N) % 5})
    model = PartialLabelClassifier("proden", epochs=15, device="cpu").fit(frame, SETS)
    assert (model.predict(frame) == np.array(list(SAID))[TRUTH]).mean() > 0.8


# ---- sentence models --------------------------------------------------------------------------


class LengthModel:
    """Stands for a sentence-transformers model: a text becomes its length, and how often it says please."""

    def __init__(self, folder, local_files_only, model_kwargs):
        assert local_files_only
        assert model_kwargs == {"use_safetensors": True}

    def encode(self, texts, show_progress_bar=False):
        return np.array([[len(text), text.count("please")] for text in texts], dtype=np.float32)


@pytest.fixture
def sentences(tmp_path, monkeypatch):
    """A folder like those of sentence-transformers, in a world where that package is LengthModel."""
    package = types.ModuleType("sentence_transformers")
    package.SentenceTransformer = LengthModel
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)
    monkeypatch.setattr(free_text, "_sentence_models", {})
    folder = tmp_path / "mini"
    folder.mkdir()
    (folder / "modules.json").write_text('[{"type": "sentence_transformers.models.Transformer"}]')
    return folder


def test_texts_by_a_sentence_model(sentences, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("t.csv")
    code, said = run(capsys, "fit", "t.csv", *FIT, "--embed", sentences)
    assert code == 0, said
    assert "1 numeric and 1 embedded text columns: 3 features" in said
    assert str(sentences) not in (tmp_path / "model/encoder.json").read_text()
    monkeypatch.setattr(free_text, "_sentence_models", {})  # a new process
    code, said = run(capsys, "predict", "model", "t.csv")
    assert code != 0
    assert "Say in which folder it is: --embed FOLDER" in said
    assert run(capsys, "predict", "model", "t.csv", "--embed", sentences)[0] == 0
    monkeypatch.setattr(free_text, "_sentence_models", {})
    (sentences / "config.json").write_text("{}")  # not what it was trained with
    code, said = run(capsys, "predict", "model", "t.csv", "--embed", sentences)
    assert code != 0
    assert "another one was given" in said


def test_a_sentence_model_with_other_weights_of_the_same_size_is_another_one(sentences, monkeypatch):
    (sentences / "model.safetensors").write_bytes(b"1234")
    encoder = TableEncoder.fit({"text": TEXTS}, texts=["text"], sentences=free_text.use_sentences(sentences))
    monkeypatch.setattr(free_text, "_sentence_models", {})  # a new process
    (sentences / "model.safetensors").write_bytes(b"5678")
    free_text.use_sentences(sentences)
    with pytest.raises(DataError, match="another one was given"):
        encoder.transform({"text": TEXTS})


def test_sentence_models_that_cannot_be_used(sentences, tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"holds no modules\.json"):
        free_text.use_sentences(tmp_path)
    with pytest.raises(DataError, match="there is no column of free text for --embed; name one with --text"):
        TableEncoder.fit({"x": np.arange(30) % 7}, sentences=free_text.use_sentences(sentences))
    (sentences / "modules.json").write_text('[{"type": "mine.Evil"}]')
    with pytest.raises(DataError, match="code of its own"):
        free_text.use_sentences(sentences)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(DataError, match=r"pip install 'oneof\[embed\]'"):
        free_text.use_sentences(sentences)
