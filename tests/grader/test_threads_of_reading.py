"""Reading submissions in several threads at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from grader.syntax import tree_of


def test_many_threads_parse_at_once():
    source = "x = " + "(" * 60 + "1" + ")" * 60 + "\n" + "def f(a):\n    return [a + b for b in range(3)]\n" * 200
    with ThreadPoolExecutor(8) as pool:
        trees = list(pool.map(lambda n: tree_of(source + f"y = {n}\n"), range(64)))
    assert [tree.body[-1].value.value for tree in trees] == list(range(64))
