"""Fit, decide on the review page, change the table, fit again: every label stays on its row."""

import csv
import json

import numpy as np
import pytest

from oneof.app.cli import main
from oneof.app.review.decisions import Decisions
from oneof.app.review.folder import ReviewData

NAMES = ("crow", "jay")
N = 40


def write_table(path, order, name="tag", gaps=()):
    """Rows t0, t1, … in some order, most of them with both candidates; those in the gaps without any."""
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([name, "weight", "labels"])
        for i in order:
            sets = "" if i in gaps else NAMES[i % 2] if i % 5 == 4 else "crow|jay"
            writer.writerow([f"t{i}", i % 2 + i / 100, sets])


@pytest.fixture
def fit(capsys, tmp_path, monkeypatch):
    """`oneof fit t.csv` with more arguments; gives its exit code, what it said and the labels by id."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, out="model"):
        command = ["fit", "t.csv", "--candidates", "labels", "--out", out, "--epochs", "2", "--no-report"]
        with pytest.raises(SystemExit) as end:
            main([*command, "--device", "cpu", *arguments])
        return end.value.code, "".join(capsys.readouterr())

    return run


def decided(folder, labels):
    """What a person decides on the page of a folder: labels by id."""
    data = ReviewData.load(folder)
    decisions = Decisions(folder, data)
    for name, label in labels.items():
        decisions.append(data.ids.index(name), "decide", NAMES.index(label))


def trusted(folder):
    """The rows with a trusted label after a fit, by id, with that label."""
    data = ReviewData.load(folder)
    with open(folder / "labels.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return {rows[i].get("id", i): rows[i]["label"] for i in np.flatnonzero(data.trusted)}


LABELS = {"t0": "jay", "t5": "crow", "t17": "crow", "t30": "jay"}
"""Against what the weights say: a label on the wrong row would be noticed."""
ORDERS = {
    "reversed": list(range(N))[::-1],
    "two rows swapped": [5, 1, 2, 3, 4, 0, *range(6, N)],
    "rows added in front": [60, 61, *range(N)],
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("again", [["--id", "tag"], []], ids=["with --id", "without --id"])
def test_a_table_in_another_order_keeps_every_label_on_its_row(fit, tmp_path, order, again):
    write_table(tmp_path / "t.csv", range(N))
    assert fit("--id", "tag")[0] == 0
    decided(tmp_path / "model", LABELS)
    write_table(tmp_path / "t.csv", order)
    code, said = fit(*again, "--clean", "model/decisions.jsonl", out="more")
    assert code == 0, said
    assert trusted(tmp_path / "more") == LABELS
    assert ('named by the column "tag"' in said) == (not again)


def test_the_third_round_knows_the_ids_as_well(fit, tmp_path):
    write_table(tmp_path / "t.csv", range(N))
    assert fit("--id", "tag")[0] == 0
    decided(tmp_path / "model", {"t0": "jay"})
    assert fit("--clean", "model/decisions.jsonl")[0] == 0
    decided(tmp_path / "model", {"t5": "crow"})
    write_table(tmp_path / "t.csv", ORDERS["reversed"])
    assert fit("--clean", "model/decisions.jsonl")[0] == 0
    assert trusted(tmp_path / "model") == {"t0": "jay", "t5": "crow"}


def test_ids_that_nobody_can_find_are_refused_with_what_to_do(fit, tmp_path):
    write_table(tmp_path / "t.csv", range(N))
    assert fit("--id", "tag")[0] == 0
    decided(tmp_path / "model", LABELS)
    write_table(tmp_path / "t.csv", range(N), name="other name")
    code, said = fit("--clean", "model/decisions.jsonl", out="more")
    assert code == 1
    assert "decisions.jsonl, line 1" in said
    assert "'t0'" in said
    assert "--id COLUMN" in said
    assert fit("--id", "other name", "--clean", "model/decisions.jsonl", out="more")[0] == 0
    assert trusted(tmp_path / "more") == LABELS


def test_a_row_that_left_the_table_is_named_with_its_line(fit, tmp_path):
    write_table(tmp_path / "t.csv", range(N))
    assert fit("--id", "tag")[0] == 0
    decided(tmp_path / "model", LABELS)
    write_table(tmp_path / "t.csv", [i for i in range(N) if i != 5])
    code, said = fit("--clean", "model/decisions.jsonl", out="more")
    assert code == 1
    assert "decisions.jsonl, line 2" in said
    assert "'t5'" in said
    assert not (tmp_path / "more").exists()


def test_the_page_and_the_next_fit_read_a_file_alike(fit, tmp_path):
    write_table(tmp_path / "t.csv", range(N))
    assert fit("--id", "tag")[0] == 0
    decided(tmp_path / "model", LABELS)
    file = tmp_path / "model" / "decisions.jsonl"
    torn = json.dumps({"row": 1, "id": "t1", "label": "crow", "action": "decide"})
    file.write_text(file.read_text() + torn[:-1])  # never confirmed: the end of the line is missing
    page = Decisions(tmp_path / "model", ReviewData.load(tmp_path / "model"))
    assert fit("--clean", "model/decisions.jsonl", out="more")[0] == 0
    assert trusted(tmp_path / "more") == LABELS
    assert {f"t{row}": NAMES[column] for row, column in page.decided.items()} == LABELS


def test_without_ids_decisions_of_other_sets_are_refused(fit, tmp_path):
    write_table(tmp_path / "t.csv", range(N))
    assert fit()[0] == 0
    data = ReviewData.load(tmp_path / "model")
    Decisions(tmp_path / "model", data).append(0, "decide", 1)
    assert fit("--clean", "model/decisions.jsonl", out="more")[0] == 0
    assert trusted(tmp_path / "more") == {0: "jay"}
    write_table(tmp_path / "t.csv", ORDERS["reversed"])
    code, said = fit("--clean", "model/decisions.jsonl", out="other")
    assert code == 1
    assert "moved or changed" in said
    assert "--id COLUMN" in said


def test_without_ids_rows_with_equal_sets_that_change_places_are_noticed(fit, tmp_path):
    write_table(tmp_path / "t.csv", range(N))
    assert fit()[0] == 0
    before = ReviewData.load(tmp_path / "model")
    Decisions(tmp_path / "model", before).append(0, "decide", 1)
    write_table(tmp_path / "t.csv", ORDERS["two rows swapped"])
    code, said = fit("--clean", "model/decisions.jsonl", out="other")
    assert code == 1
    assert "moved or changed" in said
    assert fit(out="other")[0] == 0
    after = ReviewData.load(tmp_path / "other")
    assert after.candidates.hash == before.candidates.hash  # the sets alone would not have told
    assert Decisions(tmp_path / "model", after).decided == {}


GAPS = (3, 11, 12)


def test_rows_without_candidates_do_not_hide_the_ids_of_the_others(fit, tmp_path):
    write_table(tmp_path / "t.csv", range(N), gaps=GAPS)
    assert fit("--id", "tag")[0] == 0
    decided(tmp_path / "model", LABELS)
    write_table(tmp_path / "t.csv", ORDERS["reversed"], gaps=GAPS)
    code, said = fit("--clean", "model/decisions.jsonl", out="more")
    assert code == 0, said
    assert trusted(tmp_path / "more") == LABELS


def test_numbers_of_rows_are_no_ids_where_some_have_no_candidates(fit, tmp_path):
    write_table(tmp_path / "t.csv", range(N), gaps=GAPS)
    assert fit()[0] == 0
    data = ReviewData.load(tmp_path / "model")
    assert data.ids[3] == "4"  # shown as in the table
    Decisions(tmp_path / "model", data).append(3, "decide", 1)
    assert fit("--clean", "model/decisions.jsonl", out="more")[0] == 0
    assert trusted(tmp_path / "more") == {"4": "jay"}
    write_table(tmp_path / "t.csv", ORDERS["two rows swapped"], gaps=GAPS)
    code, said = fit("--clean", "model/decisions.jsonl", out="other")
    assert code == 1
    assert "moved or changed" in said
