"""Tutorials run, and print what their pages show."""

import json

import pytest
from tutorial import alike, blocks, execute, pages, recorded


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_a_tutorial_runs_and_prints_what_its_page_shows(page):
    outputs = execute(page)
    shown = json.loads(recorded(page).read_text(encoding="utf-8"))
    again = "python docs/extensions/tutorial.py --record"
    assert len(outputs) == len(shown), f"{page.name} has other blocks than its record: {again}"
    for number, (new, old) in enumerate(zip(outputs, shown), start=1):
        assert alike(new, old) > 0.8, f"{page.name}, block {number} prints something else now: {again}\n{new}"


def test_only_plain_blocks_are_executed():
    shown = "```{code-block} bash\noneof review model\n```\n\n```text\nx\n```\n"
    text = f"```python\na = 1\n```\n\n{shown}\n```bash\nls\nls\n```\n"
    assert blocks(text) == [("python", "a = 1\n"), ("bash", "ls\nls\n")]


def test_a_tutorial_that_fails_says_where(tmp_path):
    page = tmp_path / "broken.md"
    page.write_text("```python\nx = 1\n```\n\n```python\nx = 1\nx / 0\n```\n", encoding="utf-8")
    with pytest.raises(RuntimeError, match=r"(?s)broken.md, block 2.*line 2.*ZeroDivisionError"):
        execute(page)
    page.write_text("```bash\necho told\nfalse\n```\n", encoding="utf-8")
    with pytest.raises(RuntimeError, match=r"(?s)status 1.*told"):
        execute(page)


def test_numbers_do_not_count_when_outputs_are_compared():
    assert alike("loss 0.31, about 3 s, 97.2%", "loss 1.4, about 2 min, 8%") == 1
    assert alike("accuracy 97.2%", "Traceback: ValueError") < 0.8
