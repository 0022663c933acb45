"""Ids and class names of any kind in a real browser: no page breaks, and none of them is taken for code."""

import numpy as np

from oneof.app.fit_page.page import render
from oneof.tables.files import write_text
from tests.fit_report.test_facts import outcome
from tests.review.made import review_data
from tests.review.serving import Serving

ODD = {
    "code": "<script>document.title = 'taken'</script><img src=x onerror=\"document.title = 'taken'\">",
    "long": "x" * 300,
    "long words": "word " * 60,
    "lines": "first line\nsecond line\r\n\tthird",
    "emoji": "👩‍👩‍👧 crow 🐦‍⬛ \u202eright to left",
    "empty": " ",
    "template": "{{ 7 * 7 }} {% raw %} &amp; ' \" `${1}`",
}
WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
SIZES = ((1280, 860), (400, 800))


def flat(text):
    return " ".join(text.split())


def test_the_report_shows_odd_names_as_they_are(page, tmp_path):
    names = list(ODD.values())
    made = outcome(
        n=40,
        classes=names[:4],
        ids=tuple(names[i % len(names)] for i in range(40)),
        notes=[names[0]],
    )
    made.title = ODD["long"]
    write_text(tmp_path / "report.html", render(made))
    for width, height in SIZES:
        page.size(width, height)
        page.open(f"file://{tmp_path / 'report.html'}")
        assert not page.run(WIDE), width
        page.screenshot(tmp_path / f"report-{width}.png")
    assert page.run("document.title").startswith("xxx")
    shown = page.run("[...document.querySelectorAll('.review td:nth-child(2)')].map((e) => e.textContent)")
    assert [flat(text) for text in shown] == [flat(made.data.ids[row]) for row in made.doubtful]
    assert {flat(text) for text in shown} == {flat(name) for name in names}
    assert page.errors == []


def test_the_review_page_shows_odd_names_as_they_are(page, tmp_path):
    names = list(ODD.values())
    data = review_data(len(names), ids=False)
    data.ids = tuple(names)
    data.features = {
        "weight": np.linspace(-1.23456, 20, len(names)).tolist(),
        **{f"{name} column": names for name in names},
    }
    data.save(tmp_path / "run")
    with Serving(tmp_path / "run") as serving:
        for width, height in SIZES:
            page.size(width, height)
            page.open(serving.url + "&view=all")
            page.until("!document.getElementById('card').hidden")
            seen = set()
            for _ in names:
                seen.add(flat(page.run("document.getElementById('name').textContent")))
                assert not page.run(WIDE), width
                page.screenshot(tmp_path / f"review-{width}-{len(seen)}.png")
                page.press("ArrowRight")
            assert seen == {flat(name) for name in names}
    assert "taken" not in page.run("document.title")
    assert "-1.235 to 20" in page.text("#features")
    assert page.errors == []
