"""The page: self-contained, escaped, honest about what is not known."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from oneof.app.fit_page.page import (
    comparison,
    confidence_histogram,
    count_ticks,
    curve,
    nice_top,
    render,
    size_bars,
)
from oneof.app.review import ReviewData
from oneof.candidates import Candidates
from tests.fit_report.test_facts import outcome

EVIL = "<script>alert('x')</script>"
VOID = {"meta", "img", "br", "line", "rect", "polyline", "circle"}


class Checker(HTMLParser):
    """Tags are closed in order; remembers tags and what they point to."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.links, self.text = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name in ("src", "href", "xlink:href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(html):
    checker = Checker()
    checker.feed(html)
    assert checker.open == []
    return checker


def test_the_page_needs_no_other_file_and_no_scripts():
    made = outcome(trusted=np.arange(40) % 4 == 1, choice="Method: proden.", settings={"seed": "0"})
    html = render(made)
    page = read(html)
    assert "script" not in page.tags
    assert page.links == []
    assert not re.search(r"url\(|@import|https?://", html)
    assert page.tags.count("svg") == 6
    text = " ".join(page.text)
    assert f"{made.accuracy.value:.1%}" in text
    assert "Method: proden." in text


def test_everything_a_user_named_is_escaped():
    made = outcome(
        classes=[EVIL, 'b"', "<c>", "d&"],
        ids=tuple(f"{EVIL}{i}" for i in range(40)),
        choice=EVIL,
        clean=EVIL,
        notes=[EVIL],
        settings={EVIL: EVIL, "curve": EVIL},
    )
    made.title = EVIL
    html = render(made)
    assert "<script" not in html
    assert "<c>" not in html
    page = read(html)
    assert EVIL in " ".join(page.text)


def test_without_checked_rows_the_page_says_so():
    made = outcome(checked=False, clean="12 trusted labels were given and all were learned from.")
    html = render(made)
    assert "The accuracy is not known." in html
    assert "12 trusted labels were given and all were learned from." in html
    assert "Reliability" not in html
    assert read(html).tags.count("svg") == 5


def test_the_list_shows_candidates_and_what_lies_outside():
    made = outcome()
    html = render(made)
    mask, p = made.data.candidates.mask, made.data.probabilities
    assert 0 < len(made.doubtful) < 40
    assert html.count('<td class="candidates">') == len(made.doubtful)
    assert html.count("no candidate: ") == sum(not mask[i, p[i].argmax()] for i in made.doubtful)
    assert f"{len(made.doubtful)} rows have a reason to be here" in html


def test_pictures_of_rows_are_inside_the_page():
    made = outcome()
    made.thumbnails = {made.doubtful[0]: "data:image/png;base64,AAAA"}
    assert read(render(made)).links == ["data:image/png;base64,AAAA"]


def test_one_epoch_many_classes_and_rows_without_doubt():
    made = outcome(n=12, c=4)
    mask = np.eye(60, dtype=bool)[np.arange(12)]
    data, history = ReviewData(Candidates.from_mask(mask), mask, mask), [{"epoch": 0, "loss": 0.0}]
    facts = replace(made, data=data, history=history, checked=None)
    html = render(facts)
    assert "The 30 classes with the most rows, of 60" in html
    assert facts.pairs == []
    assert "nan" not in html.lower().replace("finance", "")


def test_summary_is_plain_and_complete():
    made = outcome()
    text = render(made)
    assert "40 rows with 4 classes" in text
    assert "30 rows with a trusted label that it never saw" in text
    assert "calibration error" in text
    assert f"{len(made.doubtful)} rows are worth a second look" in text


# ---- figures ----------------------------------------------------------------------------------


def compared():
    """What `selection_` holds, with one that there was no time to judge."""
    row = {
        "kind": "method",
        "judged_by": "covering rate",
        "standard_error": 0.02,
        "rounds": 3,
        "seconds": 1.0,
    }
    row |= {"chosen": False, "as_good": False}
    return [
        {**row, "name": "rplg+, mlp", "score": 0.9, "chosen": True, "as_good": True},
        {**row, "name": EVIL, "score": 0.89, "kind": "baseline", "as_good": True},
        {**row, "name": "cc, mlp", "score": float("nan"), "standard_error": float("nan"), "rounds": 0},
    ]


def test_an_equal_score_that_is_not_as_good_is_explained_by_the_second_criterion():
    chosen, plain, _ = compared()
    rows = [row | {"judged_by": "accuracy on clean rows", "score": 0.9} for row in (chosen, plain)]
    rows = [rows[0] | {"covering_rate": 0.97}, rows[1] | {"covering_rate": 0.81, "as_good": False}]
    made = outcome(selection=rows, choice="chosen.")
    html = render(made)
    assert '<th class="number">covering rate</th>' in html
    assert '<td class="number">81.0%</td>' in html
    assert "Where accuracy on clean rows cannot tell entries apart, covering rate decides" in html


def test_what_was_compared_is_a_table_and_a_picture():
    made = outcome(selection=compared(), choice="rplg+ was chosen. The baseline is as good.", wrong=0.1)
    html = render(made)
    page = read(html)
    assert "What was compared" in html
    assert html.count("The baseline is as good.") == 2
    assert "script" not in page.tags
    assert page.tags.count("svg") == 7
    assert "<strong>chosen</strong>" in html
    assert "about 4 (10.0%) are expected to be wrong" in html
    assert "nan" not in html.lower()
    assert "hardly behind" not in html  # there is one criterion


def test_as_many_rows_are_listed_as_labels_are_expected_to_be_wrong():
    made = outcome(wrong=np.linspace(0, 0.5, 40))
    assert made.data.expected_errors == 10
    assert made.doubtful == list(range(39, 29, -1))
    html = render(made)
    assert html.count('<td class="candidates">') == 10
    assert "is wrong with a probability of 50%." in html
    made = outcome(wrong=np.full(40, 0.9999))
    assert "is wrong with a probability of more than 99%." in render(made)


@pytest.mark.parametrize(
    ("scores", "ticks"),
    [
        ((0.737, 0.369), ["20%", "40%", "60%", "80%", "100%"]),
        ((0.991, 0.985), ["96%", "97%", "98%", "99%", "100%"]),
        ((0.99, 0.01), ["0%", "25%", "50%", "75%", "100%"]),
    ],
)
def test_the_comparison_has_round_ticks(scores, ticks):
    rows = [{"score": s, "standard_error": 0.001, "rounds": 1, "kind": "method"} for s in scores]
    rows = [{**row, "name": "x", "judged_by": "accuracy", "chosen": i == 0} for i, row in enumerate(rows)]
    shown = re.findall(r">(\d+%)<", comparison(rows))
    assert sorted(shown, key=lambda text: int(text[:-1])) == ticks


def test_figures_are_well_formed_and_within_their_frame():
    made = outcome(selection=compared())
    figures = re.findall(r"<svg.*?</svg>", render(made), re.DOTALL)
    assert len(figures) == 7
    for svg in figures:
        root = ElementTree.fromstring(svg)
        _, _, width, height = map(float, root.attrib["viewBox"].split())
        for rect in root.iter("rect"):
            x, y = float(rect.attrib["x"]), float(rect.attrib["y"])
            assert 0 <= x <= x + float(rect.attrib["width"]) <= width
            assert 0 <= y <= y + float(rect.attrib["height"]) <= height
        assert root.attrib["aria-label"]


def test_bars_count_every_row():
    svg = confidence_histogram(np.array([0.0, 0.5, 0.5, 1.0]), "x")
    assert svg.count("<rect") == 3
    assert "50% to 55%: 2 rows" in svg
    svg = size_bars({1: 3, 20: 2, 30: 1}, {0: 1, 1: 5}, 0.05)
    assert "15+" in svg
    assert "15 given: 3" in svg


def test_curves_skip_gaps():
    assert "0.5 to 0.25" in curve([0.5, None, 0.25], "loss")
    assert "<circle" in curve([0.5], "loss")


@pytest.mark.parametrize(
    ("value", "top"), [(0, 1), (1, 1), (7, 8), (11, 15), (99, 100), (1234, 1500), (0.3, 0.3)]
)
def test_axes_end_at_round_numbers(value, top):
    assert nice_top(value) == pytest.approx(top)
    ticks = [tick for tick, _ in count_ticks(nice_top(value))]
    assert ticks[0] == 0
    assert ticks[-1] == pytest.approx(nice_top(value))


def test_short_ids_stay_on_one_line_and_long_ones_may_break():
    made = outcome(ids=tuple(f"TCK-{i}" if i % 2 else "x" * 200 + str(i) for i in range(40)))
    html = render(made)
    assert re.search(r'<td class="name">TCK-\d+</td>', html)
    assert re.search(r"<td>x{200}\d+</td>", html)
    assert re.search(r"td\.name \{[^}]*white-space: nowrap", html)
