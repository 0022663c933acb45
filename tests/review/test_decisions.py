"""The decisions file: replaying gives the state, nothing confirmed is lost, several writers agree."""

import json
import multiprocessing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneof.app.review import ReviewError
from oneof.app.review.decisions import Decisions, Event
from oneof.tables.errors import DataError
from tests.review.made import CLASSES, review_data

DATA = review_data(6)


def lines(folder):
    return [json.loads(line) for line in (folder / "decisions.jsonl").read_text().splitlines()]


def state(decisions):
    return decisions.decided, decisions.skipped, decisions.undo, decisions.events


def test_a_line_says_row_id_label_action_and_time(tmp_path):
    decisions = Decisions(tmp_path, DATA)
    decisions.append(2, "decide", 1)
    decisions.append(3, "skip", None)
    decisions.append(2, "undo", None)
    found = lines(tmp_path)
    assert [(f["row"], f["id"], f["label"], f["action"]) for f in found] == [
        (2, "row-2", "bee", "decide"),
        (3, "row-3", None, "skip"),
        (2, "row-2", None, "undo"),
    ]
    assert all(f["time"].endswith("+00:00") for f in found)
    assert (decisions.decided, decisions.skipped) == ({}, {3})


moves = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 5), st.just("decide"), st.integers(0, 3)),
        st.tuples(st.integers(0, 5), st.just("skip"), st.none()),
        st.just("undo"),
    ),
    max_size=25,
)


@given(moves)
@settings(max_examples=60)
def test_replaying_the_file_gives_the_state(tmp_path_factory, given_moves):
    folder = tmp_path_factory.mktemp("run")
    decisions = Decisions(folder, DATA)
    labels, history = {}, []
    for move in given_moves:
        if move == "undo":
            if not history:
                continue
            row, before = history.pop()
            assert (decisions.undo[-1].row, decisions.undo[-1].label) == (row, before)
            decisions.append(row, "undo", before)
            label = before
        else:
            row, action, label = move
            history.append((row, labels.get(row)))
            decisions.append(row, action, label)
        labels.pop(row, None)
        if label is not None:
            labels[row] = label
        assert decisions.decided == labels
    again = Decisions(folder, DATA)
    assert state(again) == state(decisions)
    # the rule a simple reader follows gives the same labels: the last line of a row counts
    last = {f["row"]: f["label"] for f in lines(folder)} if history or labels else {}
    assert {r: CLASSES.index(n) for r, n in last.items() if n is not None} == labels


def test_an_undo_that_is_sent_twice_does_no_harm(tmp_path):
    decisions = Decisions(tmp_path, DATA)
    decisions.append(1, "decide", 0)
    decisions.append(1, "decide", 2)
    for _ in range(2):
        decisions.append(1, "undo", 0)
    assert decisions.decided == {1: 0}


@pytest.mark.parametrize("cut", [2, 5, 40])
@pytest.mark.parametrize("tail", [b"", b"\x00" * 30])
def test_a_torn_last_line_is_ignored_and_repaired(tmp_path, cut, tail):
    decisions = Decisions(tmp_path, DATA)
    decisions.append(0, "decide", 0)
    decisions.append(1, "decide", 1)
    path = tmp_path / "decisions.jsonl"
    path.write_bytes(path.read_bytes()[:-cut] + tail)
    again = Decisions(tmp_path, DATA)
    assert again.decided == {0: 0}
    again.append(2, "decide", 2)
    assert [f["row"] for f in lines(tmp_path)] == [0, 2]
    assert Decisions(tmp_path, DATA).decided == {0: 0, 2: 2}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("by_hand", [False, True])
def test_a_whole_last_line_counts_without_its_end(tmp_path, by_hand, strict):
    decisions = Decisions(tmp_path, DATA)
    decisions.append(0, "decide", 0)
    decisions.append(1, "decide", 1)
    path = tmp_path / "decisions.jsonl"
    first, second = path.read_text().splitlines()
    line = '{"id": "row-1", "label": "bee"}' if by_hand else second
    path.write_text(f"{first}\n{line}")
    again = Decisions(tmp_path, DATA, strict)
    again.refresh()
    assert again.decided == {0: 0, 1: 1}
    again.append(2, "decide", 2)
    again.append(3, "decide", 3)
    assert path.read_text().splitlines()[:2] == [first, line]
    assert len(lines(tmp_path)) == len(again.events) == 4
    assert state(Decisions(tmp_path, DATA)) == state(again)
    with path.open("a") as file:
        file.write('{"row": 1}')
    with pytest.raises(ReviewError, match=r"line 5: .* is no decision"):
        again.append(4, "decide", 0)
    assert path.read_text().endswith('{"row": 1}')


def test_a_long_torn_tail_is_cut_off_whole(tmp_path):
    Decisions(tmp_path, DATA).append(0, "decide", 0)
    with (tmp_path / "decisions.jsonl").open("ab") as file:
        file.write(b"x" * 10_000)
    Decisions(tmp_path, DATA).append(1, "decide", 1)
    assert [f["row"] for f in lines(tmp_path)] == [0, 1]


def test_a_line_that_is_no_decision_is_named(tmp_path):
    path = tmp_path / "decisions.jsonl"
    Decisions(tmp_path, DATA).append(0, "decide", 0)
    for bad in ("nonsense", "[]", '{"row": "1", "action": "decide", "label": null}', '{"row": 1}'):
        with path.open("a") as file:
            file.write(bad + "\n")
        with pytest.raises(ReviewError, match=r"line 2: .* is no decision"):
            Decisions(tmp_path, DATA)
        path.write_text(path.read_text().splitlines()[0] + "\n")


def test_a_line_of_ours_that_was_changed_is_not_believed(tmp_path):
    path = tmp_path / "decisions.jsonl"
    Decisions(tmp_path, DATA).append(0, "decide", 0)
    whole = path.read_bytes()
    for place in range(len(whole) - 1):
        for bit in range(8):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
            try:
                assert Decisions(tmp_path, DATA).events in ([], [Event(0, "decide", 0)])
            except ReviewError as error:
                assert "all others are kept" in str(error)  # noqa: PT017
    by_hand = {k: v for k, v in json.loads(whole).items() if k != "sha256"} | {"label": "bee"}
    path.write_text(json.dumps(by_hand) + "\n")
    assert Decisions(tmp_path, DATA).decided == {0: 1}  # as lines of earlier versions, which have no digest


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("by_hand", ['{"id": "row-5", "label": "bee"}\n', "\n"])
def test_a_file_that_was_changed_by_hand_is_read_anew(tmp_path, by_hand, end):
    decisions = Decisions(tmp_path, DATA)
    for row in range(3):
        decisions.append(row, "decide", 0)
    path = tmp_path / "decisions.jsonl"
    path.write_text(by_hand + path.read_text().strip() + end)
    decisions.append(3, "decide", 2)
    found = {0: 0, 1: 0, 2: 0, 3: 2} | ({5: 1} if "bee" in by_hand else {})
    assert decisions.decided == Decisions(tmp_path, DATA).decided == found


def test_lines_about_other_data_are_left_alone(tmp_path):
    Decisions(tmp_path, review_data(9)).append(8, "decide", 0)
    decisions = Decisions(tmp_path, DATA)
    assert (decisions.decided, decisions.foreign) == ({}, 1)
    decisions.append(1, "decide", 1)
    assert len(lines(tmp_path)) == 2


def test_ids_outlive_row_numbers(tmp_path):
    Decisions(tmp_path, DATA).append(1, "decide", 3)
    moved = review_data(6, ids=False)
    moved.ids = ("new", *DATA.ids[:5])
    assert Decisions(tmp_path, moved).decided == {2: 3}


def test_without_ids_row_numbers_count_only_for_the_same_sets(tmp_path):
    Decisions(tmp_path, review_data(6, ids=False)).append(1, "decide", 3)
    assert Decisions(tmp_path, review_data(6, ids=False)).decided == {1: 3}
    other = Decisions(tmp_path, review_data(6, seed=5, ids=False))
    assert (other.decided, other.foreign) == ({}, 1)


def test_two_servers_on_one_file_see_each_other(tmp_path):
    one, two = Decisions(tmp_path, DATA), Decisions(tmp_path, DATA)
    one.append(0, "decide", 0)
    two.append(1, "decide", 1)
    one.refresh()
    assert one.events == two.events == [Event(0, "decide", 0), Event(1, "decide", 1)]


def test_a_file_that_was_removed_starts_afresh(tmp_path):
    decisions = Decisions(tmp_path, DATA)
    decisions.append(0, "decide", 0)
    (tmp_path / "decisions.jsonl").unlink()
    decisions.append(1, "decide", 1)
    assert decisions.decided == {1: 1}


@pytest.mark.parametrize(
    ("row", "action", "label"),
    [
        (6, "decide", 0),
        (-1, "decide", 0),
        (0, "decide", 4),
        (0, "decide", None),
        (0, "skip", 1),
        (0, "drop", 0),
    ],
)
def test_what_makes_no_sense_is_not_written(tmp_path, row, action, label):
    with pytest.raises(ReviewError):
        Decisions(tmp_path, DATA).append(row, action, label)
    assert not (tmp_path / "decisions.jsonl").exists()


def write_many(folder, label):
    decisions = Decisions(folder, DATA)
    for i in range(60):
        decisions.append(i % 6, "decide", label)


def test_processes_that_write_at_once_do_not_tear_lines(tmp_path):
    start = multiprocessing.get_context("spawn")
    workers = [start.Process(target=write_many, args=(tmp_path, k)) for k in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    found = lines(tmp_path)
    assert len(found) == 180
    assert {f["label"] for f in found} == set(CLASSES[:3])
    assert len(Decisions(tmp_path, DATA).events) == 180


@pytest.mark.parametrize("name", [{"a": 1}, ["row-1"], True, 1.5, "\ud800"])
def test_a_line_whose_id_is_no_name_is_about_other_data(tmp_path, name):
    line = json.dumps({"row": 1, "id": name, "label": "bee", "action": "decide"})
    (tmp_path / "decisions.jsonl").write_text(line + "\n")
    decisions = Decisions(tmp_path, DATA)
    assert (decisions.decided, decisions.foreign) == ({}, 1)
    with pytest.raises(ReviewError, match="line 1: it is about the row with the id"):
        Decisions(tmp_path, DATA, strict=True)


def test_lines_after_a_bad_one_are_read_once_it_is_mended(tmp_path):
    decisions = Decisions(tmp_path, DATA)
    decisions.append(0, "decide", 0)
    path = tmp_path / "decisions.jsonl"
    good = path.read_text()
    later = json.dumps({"row": 1, "id": "row-1", "label": "bee"}) + "\n"
    path.write_text(good + "nonsense\n" + later)
    for _ in range(2):
        with pytest.raises(ReviewError, match="line 2: nonsense is no decision"):
            decisions.refresh()
    path.write_text(good + "        \n" + later)
    decisions.refresh()
    assert decisions.decided == {0: 0, 1: 1}


def test_a_link_in_place_of_the_file_is_refused(tmp_path):
    (tmp_path / "elsewhere").write_text("")
    run = tmp_path / "run"
    run.mkdir()
    decisions = Decisions(run, DATA)
    (run / "decisions.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=r"is a link to .*elsewhere"):
        Decisions(run, DATA)
    with pytest.raises(DataError, match=r"is a link to .*elsewhere"):
        decisions.append(0, "decide", 0)
    assert (tmp_path / "elsewhere").read_text() == ""


def test_half_a_character_in_an_id_can_be_written(tmp_path):
    odd = review_data(2, ids=False)
    odd.ids = ("a\ud800", "b")
    Decisions(tmp_path, odd).append(0, "decide", 1)
    assert Decisions(tmp_path, odd).decided == {0: 1}
