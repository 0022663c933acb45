import json
import re
from dataclasses import replace

import numpy as np
import pytest

from oneof.candidates import Candidates
from oneof.lab import LabError
from oneof.lab.candidate_pictures import save_heat_map
from oneof.lab.panels import by_data
from oneof.lab.paper import TABLES as PAPER
from oneof.lab.plan import Plan
from oneof.lab.plots import PLOTS, accuracy_by_cost, unbeaten
from oneof.lab.protocol import Row
from oneof.lab.protocols import FIXED_LENGTH, PROTOCOLS, default_rows
from oneof.lab.records import Records, as_line, read
from oneof.lab.report import cost, draw_figures, verdict, write_report
from oneof.lab.search import Search
from oneof.lab.summary import CellResult, read_folder
from oneof.lab.tables import Grid, as_latex, as_markdown, as_text, grid
from tests.bench.toy import made_up_folder, toy_protocol, write_mat

SCORES = {"rplg": 0.80, "proden": 0.75, "cc": 0.80001, "oracle": 0.95}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("report")
    data = write_mat(tmp_path)
    rows = default_rows("rplg", "proden", "cc", "oracle")
    protocol = toy_protocol(data, entries=rows, reference="rplg", seeds=tuple(range(6)), curves=2)
    return made_up_folder(tmp_path / "lab", protocol, SCORES)


def test_the_table(folder):
    (result,) = read_folder(folder)
    table = grid(result.nets["linear"])
    assert table.columns == ["method", "toy", "mean rank", "selection − test"]
    assert [row[0].text for row in table.rows] == ["RPLG", "PRODEN", "CC", "Oracle"]
    shown = {row[0].text: row[1] for row in table.rows}
    assert shown["PRODEN"].mark == "•"
    assert shown["RPLG"].mark == ""
    assert not shown["Oracle"].best, "a row that sees the labels is not the best method"
    assert shown["RPLG"].best or shown["CC"].best
    assert "n = 6 splits" in table.notes[0]
    assert re.fullmatch(r"\d+\.\d\d ± \d+\.\d\d", shown["PRODEN"].text)


def test_what_a_choice_by_the_selection_rows_promises_too_much(folder, tmp_path):
    """Every table says selection minus test, where the records have both."""
    (tmp_path / "plan-toy.json").write_text((folder / "plan-toy.json").read_text())
    lines = list(read(folder / "records.jsonl"))
    reported = [record for record in lines if record["config"]["split"]["seed"] < 1000]

    def read_back():
        (tmp_path / "records.jsonl").write_text("".join(map(as_line, lines)))
        return read_folder(tmp_path)[0]

    for record in reported:
        found, method = record["result"], record["config"]["method"]["name"]
        found["selection"] = found["test"] + {"rplg": 0.125, "proden": 0.01}.get(method, 0.0)
        if method == "oracle":
            del found["selection"]
    table = grid(read_back().nets["linear"])
    assert [row[-1].text for row in table.rows] == ["+12.5", "+1.0", "+0.0", "–"]
    assert any(note.startswith("Selection − test") for note in table.notes)
    for record in reported:
        record["result"].pop("selection", None)
    assert "election" not in as_markdown(grid(read_back().nets["linear"]))


def test_a_choice_by_candidate_sets_has_no_accuracy_on_the_selection_rows(tmp_path):
    """`--select-by covering`: what such a record calls selection is a covering rate."""
    protocol = toy_protocol(write_mat(tmp_path), criterion="covering")
    (result,) = read_folder(made_up_folder(tmp_path / "lab", protocol, SCORES))
    assert "election" not in as_markdown(grid(result.nets["linear"]))


def test_one_split_has_no_spread_and_no_tests(tmp_path):
    protocol = toy_protocol(
        write_mat(tmp_path), entries=default_rows("rplg", "proden"), reference="rplg", seeds=(0,)
    )
    (result,) = read_folder(made_up_folder(tmp_path / "lab", protocol, SCORES))
    table = grid(result.nets["linear"])
    assert all(re.fullmatch(r"\d+\.\d\d", row[1].text) for row in table.rows)
    assert "one split: no spread, no tests" in table.notes[0]
    assert verdict(result.nets["linear"])[0].endswith("on one split: no test.")


def test_the_languages(folder):
    (result,) = read_folder(folder)
    table = grid(result.nets["linear"])
    text, markdown, latex = as_text(result), as_markdown(table), as_latex(table)
    assert "•" in text
    assert "*" in text
    assert markdown.startswith("| method | toy | mean rank | selection − test |\n|---|---:|---:|---:|")
    assert "**" in markdown
    assert r"\textbf{" in latex
    assert r"$\pm$" in latex
    assert r"$\bullet$" in latex
    assert latex.count(r"\\") == 5
    assert "%" not in latex.replace(r"\%", "").split(r"\end{tabular}")[0]


def test_a_table_without_a_finished_split_says_what_runs_first(tmp_path):
    for search, said in ((Search(), "--configurations 1"), (None, "the same command goes on")):
        plan = Plan(toy_protocol(write_mat(tmp_path), search=search), Records(tmp_path / str(search)))
        plan.save(tmp_path / str(search), {"command": "oneof bench toy", "versions": {}})
        (result,) = read_folder(tmp_path / str(search))
        shown = as_text(result)
        assert "No reported split is done yet" in shown
        assert said in shown
        assert ("--configurations" in shown) == (search is not None)


def test_a_table_without_its_search_says_so(folder, monkeypatch):
    (result,) = read_folder(folder)
    monkeypatch.setitem(PROTOCOLS, "toy", replace(result.protocol))
    assert "first look" not in as_text(result)
    object.__setattr__(result.protocol, "search", None)
    assert "the methods' defaults in place of the protocol's search" in as_text(result)


def test_incomplete_rows_say_their_n(folder, tmp_path):
    lines = (folder / "records.jsonl").read_text().splitlines()
    configs = [json.loads(line)["config"] for line in lines]
    kept = [
        line for line, c in zip(lines, configs) if (c["split"]["seed"], c["method"]["name"]) != (5, "proden")
    ]
    assert len(kept) == len(lines) - 1
    (tmp_path / "records.jsonl").write_text("\n".join(kept) + "\n")
    (tmp_path / "plan-toy.json").write_text((folder / "plan-toy.json").read_text())
    (result,) = read_folder(tmp_path)
    assert "(n=5)" in as_markdown(grid(result.nets["linear"]))
    assert "n = 5 or 6" in as_markdown(grid(result.nets["linear"]))


def test_ranks_are_among_the_rows_that_all_data_sets_have(tmp_path):
    paths = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        paths.append(write_mat(tmp_path / name))
    entries = default_rows("rplg", "cc", "proden", "oracle")
    protocol = toy_protocol(paths[0], data=tuple(paths), entries=entries, reference="rplg", search=None)
    scores = {"rplg": 0.8, "cc": 0.75, "proden": 0.7, "oracle": 0.9}
    made = made_up_folder(tmp_path / "lab", protocol, scores)
    (result,) = read_folder(made)
    assert result.nets["linear"].mean_ranks() == {"rplg": 1.0, "cc": 2.0, "proden": 3.0}
    assert "among" not in grid(result.nets["linear"]).notes[0]
    lines = list(read(made / "records.jsonl"))
    configs = [record["config"] for record in lines]
    kept = [
        line
        for line, c in zip(lines, configs)
        if (c["method"]["name"], c["data"]["name"]) != ("cc", paths[1])
    ]
    assert len(kept) == len(lines) - 3
    (made / "records.jsonl").write_text("".join(map(as_line, kept)))
    (result,) = read_folder(made)
    assert result.nets["linear"].mean_ranks() == {"rplg": 1.0, "proden": 2.0}
    assert "among the rows that all data sets have" in grid(result.nets["linear"]).notes[0]


def test_rows_with_the_same_numbers_in_another_order_are_level(folder, monkeypatch):
    shares = [0.955357, 0.892857, 0.830357, 0.982143, 0.964286]
    assert np.mean([100 * s for s in shares]) != np.mean([100 * s for s in shares[::-1]])
    part = read_folder(folder)[0].nets["linear"]
    part.rows = {}
    for data in ("lost", "birdsong"):
        for label, order in (("rplg", 1), ("proden", -1), ("cc", 1)):
            cell = CellResult(data, label, 5, [], 0, None, [])
            cell.test = {i: 100 * share for i, share in enumerate(shares[::order])}
            part.rows.setdefault(data, {})[label] = cell
    assert set(part.ranking().ranks.values()) == {2.0}
    assert "RPLG shares the best mean" in verdict(part)[0]


def test_a_table_needs_neither_its_methods_nor_its_reference(folder, monkeypatch):
    (result,) = read_folder(folder)
    monkeypatch.setattr("oneof.lab.tables.list_methods", list)  # those of a plugin that is not imported
    assert "PRODEN" in as_text(result)
    assert "•/◦: RPLG significantly" in as_text(result)
    object.__setattr__(result.protocol, "reference", "other")
    assert "significantly" not in as_text(result)
    assert "No tests: they compare with other, which has no row here" in as_text(result)


def test_the_published_number_stands_beside_ours(folder, monkeypatch):
    (result,) = read_folder(folder)
    data = result.data[0]
    monkeypatch.setitem(PAPER, "table9", {"rplg": {data: (70.0, 0.5)}})
    object.__setattr__(result.protocol, "paper_table", "table9")
    row = grid(result.nets["linear"]).rows[0]
    ours = result.nets["linear"].rows[data]["rplg"].mean
    assert row[2].text == f"70.00 ({ours - 70:+.2f})"
    assert grid(result.nets["linear"]).rows[1][2].text == "–"


def test_the_whole_report(folder):
    results, written = write_report(folder)
    names = {path.name for path in written}
    assert names == {"summary.json", "tables.tex", "report.md", "report.html"}
    page = (folder / "report.html").read_text()
    assert not re.search(r'(src|href)="(?!data:|#)', page), "the page needs nothing beside itself"
    assert page.count("data:image/png;base64,") >= 3
    for text in ("RPLG", "Wilcoxon", "relative to PRODEN", "|S| = 2", "random 80/10/10", "oneof bench toy"):
        assert text in page
    markdown = (folder / "report.md").read_text()
    for figure in re.findall(r"\]\((figures/[^)]+)\)", markdown):
        assert (folder / figure).exists()
    summary = json.loads((folder / "summary.json").read_text())
    data = results[0].data[0]
    cell = summary["toy"]["linear"][data]["proden"]
    assert cell["n"] == 6
    assert set(cell) >= {"mean", "std", "n", "mean_rank", "p", "p_corrected", "mark"}
    assert set(summary["mean_rank"]["toy"]["linear"]) == {"rplg", "proden", "cc"}
    assert summary["versions"]["toy"]["oneof"] == "0"
    assert summary["command"]["toy"] == "oneof bench toy"


def test_the_same_records_give_the_same_report(folder):
    write_report(folder)
    before = {p.name: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    write_report(folder)
    assert before == {p.name: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_figures_of_the_other_protocols(tmp_path):
    data = write_mat(tmp_path)
    family = {"entries": default_rows("rplg", "rplg-nm", "proden"), "reference": "rplg", "curves": 3}
    alphas = (
        Row("rplg", "rplg", reported=False),
        *(Row(f"alpha {a}", "rplg", {"alpha": a}, tuned_as="rplg") for a in (0.1, 0.5, 0.9)),
    )
    for name, changes in {
        "sensitivity": {"entries": alphas, "reference": "alpha 0.5", "curves": 0},
        "consistency": {**family, "report_recipe": FIXED_LENGTH},
        "convergence": {**family, "report_recipe": FIXED_LENGTH},
    }.items():
        protocol = toy_protocol(data, name=name, figures=PROTOCOLS[name].figures, **changes)
        made_up_folder(tmp_path / "lab", protocol, {"rplg": 0.8})
    results, _ = write_report(tmp_path / "lab")
    assert [r.protocol.name for r in results] == ["sensitivity", "consistency", "convergence"]
    figures = {p.stem for p in (tmp_path / "lab" / "figures").glob("*.png")}
    assert figures == {
        "sensitivity-linear-sensitivity",
        "consistency-linear-consistency",
        "consistency-linear-curves",
        "convergence-linear-convergence",
        "convergence-linear-weights",
        "sizes",
    }


def test_a_row_without_a_number_is_left_out_of_the_figure_by_number(tmp_path):
    """`oneof bench sensitivity --methods "alpha 0.5" proden`: PRODEN is in the table, not in the figure."""
    for rows, drawn in (
        ((Row("alpha 0.5", "rplg"), Row("proden", "proden")), True),
        (default_rows("cc"), False),
    ):
        protocol = toy_protocol(
            write_mat(tmp_path), entries=rows, reference=rows[0].label, figures=("sensitivity",)
        )
        folder = made_up_folder(tmp_path / rows[0].label, protocol, {})
        write_report(folder)
        assert (folder / "figures" / "toy-linear-sensitivity.png").exists() == drawn


def test_the_figure_by_number_runs_from_left_to_right_however_rows_were_asked_for(tmp_path, monkeypatch):
    """`oneof bench sensitivity --methods "alpha 0.9" "alpha 0.1" "alpha 0.5"`."""
    pytest.importorskip("matplotlib")
    rows = tuple(Row(f"alpha {a}", "rplg", {"alpha": a}) for a in (0.9, 0.1, 0.5))
    protocol = toy_protocol(write_mat(tmp_path), entries=rows, reference="alpha 0.5", search=None)
    (result,) = read_folder(made_up_folder(tmp_path / "lab", protocol, {"alpha 0.1": 0.8}))
    lines = []
    monkeypatch.setattr("oneof.lab.panels.save", lambda figure, _: lines.extend(figure.axes[0].lines))
    PLOTS["sensitivity"][0](result.nets["linear"], tmp_path / "figure.png")
    assert list(lines[0].get_xdata()) == [0.1, 0.5, 0.9]


def test_protocols_of_ones_own_come_last_and_by_name(tmp_path, monkeypatch):
    data = write_mat(tmp_path)
    for name in ("a-b", "quick", "a"):
        made_up_folder(tmp_path / "lab", toy_protocol(data, name=name, search=None), {})
    listed = sorted((tmp_path / "lab").glob("plan-*.json"), reverse=True)  # as a file system may have them
    monkeypatch.setattr("pathlib.Path.glob", lambda *_: listed)
    assert [r.protocol.name for r in read_folder(tmp_path / "lab")] == ["quick", "a", "a-b"]


def test_a_name_with_a_bar_stays_in_its_column():
    text = as_markdown(Grid.of(["method", "cats|dogs", "|S| = 1"], [["a|b", "1", "2"]]))
    assert text == "| method | cats\\|dogs | size = 1 |\n|---|---:|---:|\n| a\\|b | 1 | 2 |"


def test_image_protocols_show_accuracy_against_cost(folder, tmp_path):
    (result,) = read_folder(folder)
    names = {figure.name for figure in draw_figures(result.nets["linear"], tmp_path)}
    assert "cost" not in names
    object.__setattr__(result.protocol, "data", ("cifar10",))
    (drawn,) = (figure for figure in draw_figures(result.nets["linear"], tmp_path) if figure.name == "cost")
    assert drawn.path.exists()
    assert "seconds" in drawn.caption


def test_trainings_elsewhere_have_no_place_among_costs(folder, tmp_path):
    (tmp_path / "plan-toy.json").write_text((folder / "plan-toy.json").read_text())
    lines = list(read(folder / "records.jsonl"))
    for record in lines:
        record["place"] = {"device": "cpu" if record["config"]["method"]["name"] == "cc" else "a GPU"}
    (tmp_path / "records.jsonl").write_text("".join(map(as_line, lines)))
    part = read_folder(tmp_path)[0].nets["linear"]
    rows = {row[1].text: [cell.text for cell in row[2:6]] for row in cost(part).rows}
    assert rows["CC"] == ["–", rows["RPLG"][1], "–", "–"]
    assert "–" not in rows["RPLG"]
    assert "Trained on another device (cpu) and left out of costs: CC on toy (6 of 6)." in grid(part).notes
    assert accuracy_by_cost(part, tmp_path / "cost.png").exists()

    for record in lines:
        if record["config"]["method"]["name"] == "cc" and record["config"]["split"]["seed"] % 2:
            record["place"] = {"device": "a GPU"}
            record["result"] |= {"train_seconds": 2.0, "epochs": 10}
    (tmp_path / "records.jsonl").write_text("".join(map(as_line, lines)))
    part = read_folder(tmp_path)[0].nets["linear"]
    (found,) = part.rows.values()
    assert (found["cc"].seconds, found["cc"].seconds_per_epoch) == (2.0, 0.2)  # of those that can be compared
    assert any("CC on toy (3 of 6)" in note for note in grid(part).notes)
    assert not any("another device" in note for note in grid(read_folder(folder)[0].nets["linear"]).notes)


def test_a_training_whose_seconds_are_not_known(folder, tmp_path):
    (result,) = read_folder(folder)
    for record in result.nets["linear"].rows[result.data[0]]["cc"].records:
        del record["result"]["train_seconds"]
    rows = {row[1].text: [cell.text for cell in row[2:6]] for row in cost(result.nets["linear"]).rows}
    assert rows["CC"] == ["–", "5", "–", "–"]
    assert rows["PRODEN"] == ["0.50", "5", "100.0", "1.0"]
    assert accuracy_by_cost(result.nets["linear"], tmp_path / "cost.png").exists()


def test_points_that_no_other_beats():
    assert unbeaten([(3, 0.9), (1, 0.5), (2, 0.5), (2, 0.7), (4, 0.8), (1, 0.4)]) == [
        (1, 0.5),
        (2, 0.7),
        (3, 0.9),
    ]


def test_a_folder_without_records_says_what_to_do(tmp_path):
    with pytest.raises(LabError, match="oneof bench PROTOCOL"):
        read_folder(tmp_path)


def test_names_that_look_like_a_formula_are_drawn(tmp_path):
    sets = Candidates(np.ones((2, 3), dtype=bool), ("$5-$10", "$10_$20", "more"))
    assert save_heat_map(sets, tmp_path / "map.png").exists()
    assert by_data(tmp_path / "figure.png", ["$a_$b.csv"], 2.0, lambda axis, d: None, "x").exists()
