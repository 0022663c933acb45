"""Names from files, shown in a terminal, a spreadsheet, LaTeX, Markdown and the model card."""

import csv
import json
import re
import sys
import warnings

import numpy as np
import pytest

from oneof import PartialLabelClassifier, load
from oneof.app.cli import main
from oneof.app.commands.show import ReadableStream, show_table, visible
from oneof.classifier.persist.card import model_card
from oneof.lab.rendering import without_tags
from oneof.lab.tables import _tex, as_comment
from oneof.tables.writers import writing

ESCAPE = "\x1b[2J\x07\x9b31m\u202egpj"
HALF = ["\ud800", "\udc80", "c"]


def fitted(names):
    x = np.random.default_rng(0).normal(size=(30, 2))
    sets = [[names[i % 3], names[(i + 1 + i // 3) % 3]] for i in range(30)]
    return PartialLabelClassifier("cc", net="linear", epochs=1).fit(x, sets)


def test_the_terminal_does_not_obey_names_in_a_file(tmp_path, capsys):
    file = tmp_path / "table.csv"
    file.write_text(f"{ESCAPE},labels\n" + "".join(f"{i},a{ESCAPE}|b{ESCAPE}\n" for i in range(9)))
    with pytest.raises(SystemExit):
        main(["fit", str(file), "--candidates", "label" + ESCAPE, "--out", str(tmp_path / "model")])
    with pytest.raises(SystemExit):
        main(["candidates", "import", str(file), "--format", "records", "--out", str(tmp_path / "c.npz")])
    out, err = capsys.readouterr()
    assert "\\x1b[2J\\x07" in out
    assert "\\x1b[2J\\x07" in err
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", out + err)


def test_a_table_on_the_terminal_shows_what_cells_hold(capsys):
    show_table("t", ["name"], [[ESCAPE]])
    assert "\\x1b[2J" in capsys.readouterr().out


def test_progress_bars_still_move_the_cursor():
    from rich.console import Console

    assert Console(file=ReadableStream(sys.stdout)).file is sys.stdout
    assert visible("a\tb\nü") == "a\tb\nü"


def test_cells_that_a_spreadsheet_would_compute_are_pointed_out(tmp_path):
    cells = ["fine", "=HYPERLINK(1)", "@SUM(1)"]
    with (
        pytest.warns(UserWarning, match=r"'=HYPERLINK\(1\)': a spreadsheet would"),
        writing(tmp_path / "a.csv") as out,
    ):
        out.write({"id": cells, "x": [1, 2, 3]})
    with (tmp_path / "a.csv").open(newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == cells  # as they were: they name rows


def test_numbers_and_names_with_a_sign_are_no_formulas(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with writing(tmp_path / "a.csv") as out:
            out.write({"x": ["-1.5", "+2", "-cat", "", "--"], "y": [-1, 2, 3, 4, 5]})
    with pytest.warns(UserWarning, match="cmd"), writing(tmp_path / "b.csv") as out:
        out.write({"x": ["-2+3+cmd|' /C calc'!A0"]})


@pytest.mark.parametrize("text", ["^^5cinput{/etc/passwd}", "\\input{x}", "$x$", "a\n\\input{x}"])
def test_latex_does_not_run_names_of_files(text):
    assert not re.search(r"\^\^|(?<!\\)[{}$]|\\input", _tex(text).replace("{}", "").replace("\\textback", ""))
    assert "\n" not in as_comment(text)


def test_markdown_of_the_lab_has_no_tags_from_names():
    assert without_tags("<script>x</script> p < 0.05") == "&lt;script>x&lt;/script> p < 0.05"


def test_a_class_cannot_write_headings_into_the_model_card():
    card = model_card(fitted(["a\r\r# Trusted", "b`<script>`", "c\u2028d"]))
    assert "`a # Trusted`" in card
    assert not re.search(r"[\r\u2028]", card)


def test_a_name_with_half_a_character_does_not_cost_the_training(tmp_path):
    model = fitted(HALF)
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").classes_.tolist() == sorted(HALF)
    with writing(tmp_path / "labels.csv") as out:
        out.write({"id": HALF})
    assert (tmp_path / "labels.csv").read_text().split() == ["id", "\\ud800", "\\udc80", "c"]


def test_a_fit_whose_ids_have_half_characters_ends_well(tmp_path, capsys):
    sets = [[HALF[i % 3], HALF[(i + 1) % 3]] for i in range(12)]
    rows = [{"id": "\udc80" * (i + 1), "x": i % 3, "labels": labels} for i, labels in enumerate(sets)]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = ["--id", "id", "--method", "cc", "--net", "linear", "--epochs", "1"]
    with pytest.raises(SystemExit) as end:
        main(["fit", str(file), "--candidates", "labels", *arguments, "--out", str(tmp_path / "model")])
    assert not end.value.code, capsys.readouterr()
    assert {"labels.csv", "report.html", "review.json"} <= {f.name for f in (tmp_path / "model").iterdir()}
