"""The mutation tester itself: which faults it makes, and what it leaves alone."""

import ast

import pytest
from benchmarks.mutants import SOURCE, Covering, Mutant, another_program, draw, mutants, run_tests, statement


def made(source: str) -> set[tuple[str, str]]:
    """Operator and resulting program of every mutant."""
    raw = source.encode()
    return {
        (m.operator, m.applied(raw).decode().strip()) for m in mutants(raw, "a.py") if another_program(m, raw)
    }


@pytest.mark.parametrize(
    ("source", "operator", "expected"),
    [
        ("x = a < b", "comparison", "x = a <= b"),
        ("x = a == b", "comparison", "x = a != b"),
        ("x = a not in b", "comparison", "x = a in b"),
        ("x = c * (a - b)", "arithmetic", "x = c * (a + b)"),
        ("x = c * (a - b)", "arithmetic", "x = c / (a - b)"),
        ("x = c / a**2", "arithmetic", "x = c / (a * 2)"),
        ("x += a", "arithmetic", "x -= a"),
        ("x = a and b", "and/or", "x = (a or b)"),
        ("x = not a", "not", "x = a"),
        ("x = -(a + b)", "sign", "x = (a + b)"),
        ("x = ~a", "sign", "x = a"),
        ("if a:\n    f()", "negation", "if not (a):\n    f()"),
        ("x = a if b else c", "negation", "x = a if not (b) else c"),
        ("x = [a for a in b if a]", "negation", "x = [a for a in b if not (a)]"),
        ("x = 3", "constant", "x = 4"),
        ("x = 1e-3", "constant", "x = 0.002"),
        ("x = True", "constant", "x = False"),
        ("def f(a):\n    return a", "return", "def f(a):\n    return None"),
        ("f(a)", "deletion", "pass"),
        ("def f():\n    x = 1", "deletion", "def f():\n    pass"),
        ("f(a, g(b), c)", "arguments", "f(g(b), a, c)"),
        ("x = min(a)", "min/max", "x = max(a)"),
        ("x = (a + b).argmax(dim=1)", "min/max", "x = (a + b).argmin(dim=1)"),
        ("x = a[1:n]", "slice", "x = a[1:]"),
        ("x = a[1:]", "slice", "x = a[:]"),
        ("é = 'ü'; x = a < b", "comparison", "é = 'ü'; x = a <= b"),  # places are counted in bytes
    ],
)
def test_an_operator_makes_this_fault(source, operator, expected):
    assert (operator, expected) in made(source)


@pytest.mark.parametrize(
    "source",
    [
        '"""Only 1 + 1 text."""',
        "def f(a: int | None, b: Literal[1]) -> tuple[int | None, ...]: ...",
        "raise ValueError(a + 1)",
        "assert a < 1",
        "warnings.warn(f'{a + 1}', stacklevel=2)",
        "@register(year=2020)\nclass A: ...",
        "__all__ = ['a']",
        "if TYPE_CHECKING:\n    x = 1",
        "import a",
        "f(a, a)[b]",  # swapped arguments that are equal
    ],
)
def test_what_has_no_effect_is_left_alone(source):
    assert made(source) <= {("deletion", "pass")}


def test_what_is_drawn_is_another_program_and_follows_from_the_seed():
    files = ["methods/cc.py", "methods/losses.py", "methods/optimisers.py"]
    drawn, total = draw(files, 40, seed=3)
    assert len(set(drawn)) == 40 <= total
    for mutant in drawn:
        source = (SOURCE / mutant.file).read_bytes()
        assert ast.dump(ast.parse(mutant.applied(source))) != ast.dump(ast.parse(source))
        assert source[mutant.start : mutant.end].decode() == mutant.before
    assert draw(files, 10, seed=3)[0] == drawn[:10]
    assert draw(files, 10, seed=4)[0] != drawn[:10]
    assert 40 < len(draw(files, 10**6, seed=3)[0]) <= total


def test_a_mutant_gets_the_tests_that_execute_its_statement_from_every_file_in_turn():
    file = "methods/cc.py"
    source = (SOURCE / file).read_bytes()
    node = next(n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Return))
    mutant = next(m for m in mutants(source, file) if m.operator == "return" and m.line == node.lineno)
    inside, elsewhere = node.lineno, 1
    lines = {
        inside: ["a.py::large", "a.py::small", "b.py::large", "tests/test_cc.py::x"],
        elsewhere: ["a.py::large", "b.py::large", "b.py::no"],
    }
    covering = Covering({file: lines}, most=4)
    assert covering.tests(mutant) == ["tests/test_cc.py::x", "a.py::small", "b.py::large", "a.py::large"]
    assert Covering({file: lines}, most=1).tests(mutant) == ["tests/test_cc.py::x"]
    assert Covering({file: {elsewhere: ["b.py::no"]}}, most=3).tests(mutant) == ["b.py::no"]
    assert Covering({}, most=3).tests(mutant) == []


def test_a_statement_with_a_body_ends_before_it():
    file = "methods/cc.py"
    source = (SOURCE / file).read_bytes()
    function = next(n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef))
    head = Mutant(file, function.lineno, 0, 1, "constant", "", "")
    assert statement(head) == range(function.lineno, function.body[0].lineno)


@pytest.mark.parametrize(
    ("body", "result"),
    [("assert True", "survived"), ("assert False", "killed"), ("while True: pass", "timeout")],
)
def test_a_mutant_is_dead_if_a_test_fails_or_hangs(tmp_path, body, result):
    test = tmp_path / "test_one.py"
    test.write_text(f"def test_it():\n    {body}\n")
    got, name = run_tests(tmp_path, [str(test)], limit=3 if result == "timeout" else 120)
    assert got == result
    assert name.endswith("test_it") == (result == "killed")
