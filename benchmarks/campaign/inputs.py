"""Small files of every kind that is read, and their readers, for the part `fuzz`."""

from __future__ import annotations

import gzip
import io
import json
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars
from PIL import Image
from scipy.io import savemat
from scipy.sparse import csc_matrix

import oneof
from benchmarks.campaign import Failed
from benchmarks.campaign.subjects import SETS, X, model, record, review_data
from oneof.app.review import ReviewData
from oneof.app.review.decisions import Decisions
from oneof.app.streaming import predict_file
from oneof.candidates.annotations import Annotations
from oneof.datasets.formats import read_cifar_binary, read_cifar_python, read_idx
from oneof.lab.records import Records, as_line
from oneof.tables.candidate_files import load_annotations, save_annotations
from oneof.tables.encoding import TableEncoder
from oneof.tables.images import read_images
from oneof.tables.importers.files import import_file
from oneof.tables.importers.options import ImportOptions
from oneof.tables.reader import read_table

Read = Callable[[Path], Any]
Target = tuple[dict[str, bytes], Read]
"""Files, and how they are read; one of the files is changed."""

# ---- importers ------------------------------------------------------------------------------------


def parquet(columns: dict[str, Any]) -> bytes:
    polars.DataFrame(columns).write_parquet(out := io.BytesIO())
    return out.getvalue()


def arrays(**named: Any) -> bytes:
    np.savez_compressed(out := io.BytesIO(), **named)
    return out.getvalue()


def array(values: np.ndarray) -> bytes:
    np.save(out := io.BytesIO(), values)
    return out.getvalue()


def endings(columns: dict[str, list[Any]]) -> dict[str, bytes]:
    """A table in every kind of file."""
    rows = [dict(zip(columns, cells)) for cells in zip(*columns.values())]
    lines = [list(columns), *(row.values() for row in rows)]
    return {
        "csv": "".join(",".join(map(str, line)) + "\n" for line in lines).encode(),
        "tsv": "".join("\t".join(map(str, line)) + "\n" for line in lines).encode("utf-16"),
        "jsonl": "".join(json.dumps(row) + "\n" for row in rows).encode(),
        "json": json.dumps(rows).encode(),
        "parquet": parquet(columns),
    }


def importer_targets(templates: Path) -> dict[str, Target]:
    made: dict[str, Target] = {}

    def add(format: str, ending: str, content: bytes, more: Any = None, **told: Any) -> None:
        def read(folder: Path) -> Annotations:
            given = {key: folder / value if key == "taxonomy" else value for key, value in told.items()}
            return import_file(folder / f"a.{ending}", format, ImportOptions(**given))

        made[f"import {format}/{ending} {len(made)}"] = ({f"a.{ending}": content, **(more or {})}, read)

    tasks, workers = [f"t{i // 3}" for i in range(12)], [f"w{i % 3}" for i in range(12)]
    said = ["cat", "dog", "cat|dog", "owl", "owl", "cat", "dog", "dog", "owl|cat", "cat", "owl", "dog"]
    accept = ("sets", "spelling", "na-empty", "singletons", "many-classes")
    for ending, content in endings({"task": tasks, "worker": workers, "label": said}).items():
        for rule in ("union", "majority", "dawid-skene"):
            add("crowd", ending, content, rule=rule, missing="drop", accept=accept)
    for ending, content in endings({"id": tasks[::3], "ann": said[:4], "bob": said[4:8]}).items():
        add("wide", ending, content)
    add("wide", "npz", arrays(x=np.array([[0, 1], [1, 2], [2, 2]])))
    choice = {"from_name": "c", "to_name": "t", "type": "choices", "value": {"choices": ["cat", "dog"]}}
    task = {"annotations": [{"completed_by": 7, "result": [choice]}], "data": {"image": "a.png"}}
    add("label-studio", "json", json.dumps([{"id": i, **task} for i in range(4)]).encode())
    for ending, content in endings({"name": tasks[::3], "labels": said[:4]}).items():
        add("records", ending, content)
        add("complementary", ending, content, missing="drop")
    scores = np.random.default_rng(0).dirichlet(np.ones(3), 5).round(3)
    named = {name: scores[:, k].tolist() for k, name in enumerate(("cat", "dog", "owl"))}
    for ending, content in {**endings(named), "npy": array(scores), "npz": arrays(x=scores)}.items():
        add("scores", ending, content, top_k=2)
        add("scores", ending, content, top_p=0.8)
    counts = (10 * scores).astype(int)
    named = {name: counts[:, k].tolist() for k, name in enumerate(("cat", "dog", "owl"))}
    for ending, content in {**endings(named), "npy": array(counts), "npz": arrays(x=counts)}.items():
        add("counts", ending, content, missing="drop")
        add("counts", ending, content, rule="majority", missing="drop")
    add("sets", "npz", arrays(x=counts > 3), level=0.9, missing="drop")
    add("sets", "csv", b"cat,dog,owl\n1,1,0\n0,1,1\n1,0,0\n", level=0.9)
    coarse = endings({"id": tasks[::3], "label": ["bird", "cat", "owl", "bird|cat"]})["csv"]
    trees = {
        "tree.csv": b"parent,child\n,animal\nanimal,bird\nbird,robin\nbird,owl\nanimal,cat\n",
        "tree.json": json.dumps({"animal": {"bird": ["robin", "owl"], "cat": {}}}).encode(),
    }
    for name, tree in trees.items():
        add("taxonomy", "csv", coarse, {name: tree}, taxonomy=name)
    mat = {"data": X[:12].astype(float), "partial_target": SETS.mask[:12].T.astype(float)}
    sparse = {**mat, "partial_target": csc_matrix(mat["partial_target"])}
    for variables, packed in ((mat, False), (mat, True), (sparse, False), (sparse, True)):
        savemat(templates / "a.mat", variables, do_compression=packed)
        add("mat", "mat", (templates / "a.mat").read_bytes())
    return made


# ---- tables, images, data sets --------------------------------------------------------------------


def table_targets(templates: Path) -> dict[str, Target]:
    made: dict[str, Target] = {}
    some = {"x": [0.5, 1.0, 2.5, -1.0, 3.0, 0.0], "y": [1, 2, 3, 4, 5, 6], "colour": list("rgbrgb"),
            "labels": ["cat", "dog", "cat|dog", "owl", "owl|cat", "dog"]}  # fmt: skip

    def table(name: str, folder: Path) -> None:
        found = read_table(folder / name)
        found.candidates("labels", ())
        TableEncoder.fit(found, without=("labels",)).transform(found)

    for ending, content in {
        **endings(some),
        "npz": arrays(**{k: np.array(v) for k, v in some.items()}),
    }.items():
        made[f"table/{ending}"] = ({f"a.{ending}": content}, partial(table, f"a.{ending}"))
    model(1).save(templates / "predicting")
    predicting = oneof.load(templates / "predicting")

    def predict(name: str, folder: Path) -> None:
        predict_file(predicting, folder / name, folder / "out.csv")

    features = {f"x{k}": X[:9, k].tolist() for k in range(X.shape[1])}
    for ending, content in {**endings(features), "npy": array(X[:9]), "npz": arrays(x=X[:9])}.items():
        if ending not in ("json", "jsonl"):
            made[f"predict/{ending}"] = ({f"a.{ending}": content}, partial(predict, f"a.{ending}"))
    pixels = np.random.default_rng(0).integers(256, size=(12, 10, 3), dtype=np.uint8)
    for ending in ("png", "jpg", "bmp", "gif", "webp"):
        for mode in ("RGB", "L", "P"):
            Image.fromarray(pixels).convert(mode if ending != "jpg" or mode != "P" else "CMYK").save(
                out := io.BytesIO(), format={"jpg": "jpeg"}.get(ending, ending)
            )
            read: Read = lambda folder, name=f"a.{ending}": read_images([folder / name], size=(8, 8))  # noqa: E731
            made[f"image/{ending} {mode}"] = ({f"a.{ending}": out.getvalue()}, read)
    idx = b"\0\0\x08\x03" + np.array([3, 4, 5], ">u4").tobytes() + bytes(60)
    made["data set/idx"] = ({"a.gz": gzip.compress(idx)}, lambda folder: read_idx(folder / "a.gz"))
    batch = {b"data": np.zeros((2, 3072), np.uint8), b"labels": [1, 2]}
    pickled = pickle.dumps(batch, protocol=2)
    cifar = lambda folder: read_cifar_python([folder / "a"], n_classes=10)  # noqa: E731
    made["data set/cifar"] = ({"a": pickled}, cifar)
    binary = lambda folder: read_cifar_binary([folder / "a"], n_classes=10)  # noqa: E731
    made["data set/binary"] = ({"a": bytes(3073 * 2)}, binary)
    return made


# ---- folders of ours ------------------------------------------------------------------------------


def content_of(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def folder_targets(templates: Path) -> dict[str, Target]:
    fitted = model(1)
    fitted.calibrate(X, np.array(SETS.classes)[SETS.truth])
    fitted.save(templates / "model")
    review = review_data()
    review.save(templates / "review")
    decisions = Decisions(templates / "review", review)
    for i in range(6):
        decisions.append(i, "decide", i % 3)
    for ending in ("npz", "parquet"):
        save_annotations(Annotations(SETS), templates / f"sets.{ending}")

    def predict(folder: Path) -> None:
        with np.errstate(all="ignore"):
            if not np.isfinite(oneof.load(folder).predict_proba(X)).all():
                raise Failed("a model predicts NaN")

    def decided(folder: Path) -> None:
        Decisions(folder, ReviewData.load(folder), strict=True)

    lines = "".join(as_line(record(i)) for i in range(5)).encode()
    sets = {f"sets.{ending}": (templates / f"sets.{ending}").read_bytes() for ending in ("npz", "parquet")}
    return {
        "model/whole": (content_of(templates / "model"), predict),
        "review/whole": (content_of(templates / "review"), decided),
        **{f"sets/{n}": ({n: c}, lambda folder, n=n: load_annotations(folder / n)) for n, c in sets.items()},
        "records/plain": ({"records.jsonl": lines}, lambda folder: list(Records(folder))),
        "records/packed": ({"records.jsonl.gz": gzip.compress(lines)}, lambda folder: list(Records(folder))),
    }
