"""Data sets with one row of features per example: digits and the real-world partial-label sets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from oneof.datasets.registry import Download, Entry, Form, mat_parts

_PALM = "http://palm.seu.edu.cn/zhangml"


def _digits(_: Path) -> Mapping[str, Any]:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    labels = bunch.target.astype(np.int64)
    return {
        "x_train": bunch.data.astype(np.float64),
        "y_train": labels,
        "classes": tuple(str(k) for k in range(10)),
    }


def _mat(name: str, title: str, file: str, sha256: str | None, **facts: Any) -> Entry:
    path = f"pll/{file}.mat"
    archive = f"{file}.rar"
    return Entry(
        name=name,
        title=title,
        test=0,
        licence="academic use only; cite the paper",
        source=f"{_PALM}/Resources.htm",
        forms=(Form({path: sha256}, lambda folder: mat_parts(folder / path)),),
        downloads=(
            Download(f"{_PALM}/files/{archive.replace(' ', '%20')}", f"downloads/{archive}", unpacks="pll"),
        ),
        **facts,
    )


TABLES = (
    Entry(
        name="digits",
        title="Handwritten digits, 8 x 8 (bundled with scikit-learn)",
        task="digit recognition",
        train=1797,
        test=0,
        shape=(64,),
        n_classes=10,
        licence="CC BY 4.0 (UCI Machine Learning Repository)",
        citation="Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998",
        source="https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits",
        forms=(Form({}, _digits),),
    ),
    _mat(
        "lost",
        "Lost",
        "lost",
        "sha256:42a8cc43e05578087e7b8ca194647829ec535dc4d0a86cf47f357c5eb3146e4f",
        task="face naming",
        train=1122,
        shape=(108,),
        n_classes=16,
        mean_candidates=2.23,
        citation="Cour, Sapp and Taskar, Learning from Partial Labels, JMLR 12, 2011",
    ),
    _mat(
        "birdsong",
        "BirdSong",
        "BirdSong",
        "sha256:2170d46765a151ac80623d9a1242e0299802236e5574442bdb596bef90f50743",
        task="bird song classification",
        train=4998,
        shape=(38,),
        n_classes=13,
        mean_candidates=2.18,
        citation="Briggs, Fern and Raich, Rank-Loss Support Instance Machines, KDD 2012",
    ),
    _mat(
        "msrcv2",
        "MSRCv2",
        "MSRCv2",
        "sha256:948e4d443a5450308f05aa689bc82d9bcc7af699a113a6a81c40ef337a20c393",
        task="object classification",
        train=1758,
        shape=(48,),
        n_classes=23,
        mean_candidates=3.16,
        citation="Liu and Dietterich, A Conditional Multinomial Mixture Model, NIPS 2012",
    ),
    _mat(
        "soccer-player",
        "Soccer Player",
        "Soccer Player",
        None,
        task="face naming",
        train=17_472,
        shape=(279,),
        n_classes=171,
        mean_candidates=2.09,
        citation="Zeng et al., Learning by Associating Ambiguously Labeled Images, CVPR 2013",
    ),
    _mat(
        "yahoo-news",
        "Yahoo! News",
        "Yahoo! News",
        None,
        task="face naming",
        train=22_991,
        shape=(163,),
        n_classes=219,
        mean_candidates=1.91,
        citation="Guillaumin, Verbeek and Schmid, Multiple Instance Metric Learning, ECCV 2010",
    ),
)
