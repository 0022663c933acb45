"""A Ray cluster of two nodes on this machine, one of which goes away in the middle."""

import io
import threading
import time

import numpy as np
import pytest
from sklearn.base import clone

from oneof import PartialLabelClassifier
from oneof.app.streaming import predict_file, predict_tables
from oneof.app.wishes import Wishes
from oneof.lab.records import Records, read
from oneof.lab.run import run_lab
from oneof.lab.runners.ray import RayRunner
from oneof.tables.errors import DataError
from oneof.training.cluster import Cluster, ClusterError
from tests.bench.test_lab import run, without_times
from tests.bench.toy import toy_protocol, write_mat

ray = pytest.importorskip("ray", reason="Ray is not installed (extra `cluster`)")


@pytest.fixture
def cluster():
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield made
    ray.shutdown()
    made.shutdown()


def test_all_records_arrive_although_a_node_is_lost(cluster, tmp_path):
    data = write_mat(tmp_path)
    protocol = toy_protocol(data, seeds=tuple(range(10)), recipe={**toy_protocol(data).recipe, "epochs": 60})
    total = 2 * (2 + 10)
    second = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    lost_at = []

    def lose_the_second_node():
        while len(Records(tmp_path / "ray")) < 4:
            time.sleep(0.02)
        cluster.remove_node(second, allow_graceful=False)
        lost_at.append(len(Records(tmp_path / "ray")))

    runner = RayRunner(cluster.address)
    thread = threading.Thread(target=lose_the_second_node, daemon=True)
    thread.start()
    outcome = run_lab(protocol, tmp_path / "ray", runner, stream=io.StringIO())
    thread.join(timeout=30)
    assert lost_at, "the node was not removed"
    assert lost_at[0] < total, "the node was removed too late to be missed"
    assert outcome.plan.complete
    assert not outcome.failed
    jobs = [record["job"] for record in read(tmp_path / "ray" / "records.jsonl")]
    assert len(jobs) == len(set(jobs)) == total
    run(protocol, tmp_path / "inline")
    a, b = ({r["job"]: without_times(r) for r in Records(tmp_path / name)} for name in ("ray", "inline"))
    assert a == b


def test_no_cluster_says_what_to_do(tmp_path):
    with pytest.raises(ClusterError, match="ray start --head"):
        RayRunner("auto").__enter__()


def test_tables_are_predicted_although_a_node_is_lost(cluster, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    mask = np.column_stack([x[:, 0] > 0, x[:, 1] > 0, np.ones(60, dtype=bool)])
    model = PartialLabelClassifier("proden", net="linear", epochs=2, device="cpu").fit(x, mask)
    tables = tmp_path / "tables"
    tables.mkdir()
    for i in range(12):
        np.save(tables / f"part{i:02}.npy", rng.normal(size=(4000, 3)))
    second = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()

    def lose_the_second_node(done, total):
        if done == 3:
            cluster.remove_node(second, allow_graceful=False)

    out = tmp_path / "out"
    rows = predict_tables(model, tables, out, cluster.address, progress=lose_the_second_node)
    assert rows == 48_000
    for table in sorted(tables.iterdir()):
        predict_file(model, table, tmp_path / "alone.csv")
        assert (out / f"{table.stem}.csv").read_bytes() == (tmp_path / "alone.csv").read_bytes()
    assert predict_tables(model, tables, out, cluster.address) == 0  # all is there
    with pytest.raises(DataError, match="other wishes"):
        predict_tables(model, tables, out, cluster.address, Wishes(reject_below=0.5))


def test_a_choice_is_the_same_on_a_cluster_although_a_node_is_lost(cluster, monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(240, 4))
    truth = (x[:, 0] > 0).astype(int) + (x[:, 1] > 0)
    mask = np.eye(3, dtype=bool)[truth] | (rng.random((240, 3)) < 0.4)
    there_still = [cluster.add_node(num_cpus=1)]
    cluster.wait_for_nodes()
    came, ready = [], Cluster.ready

    def lose_the_second_node(self, *given):
        ended = ready(self, *given)  # on a busy machine none may have ended, or several
        came.extend(ended)
        if len(came) >= 2 and there_still:
            cluster.remove_node(there_still.pop(), allow_graceful=False)
        return ended

    monkeypatch.setattr(Cluster, "ready", lose_the_second_node)
    model = PartialLabelClassifier("auto", epochs=4, device="cpu")
    there = model.set_params(cluster=cluster.address).fit(x, mask)
    assert not there_still
    assert len(came) > 4
    here = clone(model).set_params(cluster=None).fit(x, mask)
    assert [row["name"] for row in there.selection_] == [row["name"] for row in here.selection_]
    np.testing.assert_allclose(there.out_of_fold_, here.out_of_fold_, atol=1e-5)
    np.testing.assert_allclose(there.predict_proba(x), here.predict_proba(x), atol=1e-5)
