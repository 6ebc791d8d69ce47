"""The benchmarks run, on few hosts; how long anything takes is not looked at."""

from tools.bench import multicreate, report, rules, stages
from tools.bench.report import Measurement, best


def test_stages():
    found = list(stages.run(5, runs=1))
    assert {one.hosts for one in found} == {5}
    assert {"parse", stages.BY_MIRROR} <= {one.name for one in found}


def test_the_mirror_chooses_among_the_same_hosts_as_a_fresh_answer():
    bench = stages.Stages(20)
    fresh, mirrored = bench.decoded_to_selections(), bench.decoded_to_selections_by_mirror()
    assert len(mirrored[0]) == len(fresh[0]) == 3
    assert {each.compute_node_uuid for each in mirrored[0]} <= {row.uuid for row in bench.table.rows}


def test_every_rule_is_measured():
    cases = {}
    for one in rules.run(5, runs=1):
        cases.setdefault(one.case, {})[one.name] = one.milliseconds
    plain, demanding = cases[f"filters, {rules.PLAIN_BOOT}"], cases[f"filters, {rules.DEMANDING}"]
    assert plain.keys() == demanding.keys() == {cls.__name__ for cls in rules.filters.SHIPPED} | {"in all"}


def test_many_instances():
    assert len(list(multicreate.run(200, runs=1))) == 4


def test_results_are_kept_and_compared(tmp_path, capsys):
    now = [Measurement("b", "c", "x", 10, 1.0), Measurement("b", "c", "new", 10, 1.0)]
    report.write(tmp_path / "then.json", [Measurement("b", "c", "x", 10, 4.0)])
    report.show(now)
    report.compare(now, report.read(tmp_path / "then.json"))
    shown, compared = capsys.readouterr().out.split("\nb: c (time now / time then)")
    assert "1.000" in shown
    assert compared.split() == ["10", "x", "0.25"]


def test_the_best_of_some_runs():
    made = []
    assert best(made.append, lambda: len(made), runs=3) >= 0
    assert made == [0, 1, 2]
