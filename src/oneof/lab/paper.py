"""The published numbers: Qiao et al., NeurIPS 2025 (arXiv 2410.20797).

Accuracy in %, mean and standard deviation of 5 trials.

Tables 1 to 3 are the paper's; `rollback` and the MNIST family are from the authors' public rebuttal. The
published standard deviations are smaller than the sampling error of a single split of the small sets, so
those trials share one split and differ in the training seed: absolute numbers there depend on the split.
"""

from __future__ import annotations

from oneof.lab.protocols import BENCHMARKS, REAL_WORLD

Number = tuple[float, float | None]


def _rows(columns: tuple[str, ...], text: str) -> dict[str, dict[str, Number]]:
    """Rows `label: mean±std mean±std …` as label → data set → (mean, std)."""
    table: dict[str, dict[str, Number]] = {}
    for line in text.strip().splitlines():
        label, _, cells = line.partition(":")
        numbers = [cell.partition("±") for cell in cells.split()]
        table[label.strip()] = {
            name: (float(mean), float(std) if std else None) for name, (mean, _, std) in zip(columns, numbers)
        }
    return table


TABLES: dict[str, dict[str, dict[str, Number]]] = {
    "table1": _rows(
        BENCHMARKS,
        """
        rplg: 87.53±0.21 65.03±0.21 40.74±0.64
        dirk: 84.63±0.22 58.17±0.20 25.77±1.55
        sdct: 86.50±0.13 60.95±0.35 36.50±0.35
        pop: 86.23±0.36 60.71±0.16 39.27±0.86
        idgp: 86.43±0.23 64.38±0.27 32.21±1.14
        able: 85.11±0.24 61.21±0.37 23.60±0.77
        valen: 85.48±0.62 62.96±0.96 37.14±0.21
        plcr: 86.37±0.38 64.12±0.23 24.59±1.68
        pico: 86.16±0.21 62.98±0.38 29.95±0.48
        cavl: 59.67±3.30 52.59±1.01 28.10±0.77
        lws: 37.49±2.82 53.98±0.99 27.37±0.82
        rc: 85.95±0.40 63.41±0.56 35.74±0.61
        cc: 79.96±0.99 62.40±0.84 31.46±1.24
        proden: 86.04±0.21 62.56±1.49 33.37±0.97
        """,
    ),
    "table2": _rows(
        REAL_WORLD,
        """
        rplg: 81.07±0.74 75.27±0.23 51.65±0.65 56.94±0.34 68.01±0.19
        dirk: 79.24±0.63 74.52±0.23 48.59±0.28 55.83±0.35 67.65±0.32
        pop: 78.57±0.45 74.47±0.36 45.86±0.28 54.48±0.10 66.38±0.07
        idgp: 77.02±0.80 74.23±0.17 50.45±0.47 55.99±0.28 66.62±0.19
        valen: 76.87±0.86 73.39±0.26 49.97±0.43 55.81±0.10 66.26±0.13
        cavl: 75.89±0.42 73.47±0.13 44.73±0.96 54.06±0.67 65.44±0.23
        lws: 73.13±0.32 51.45±0.26 49.85±0.49 50.24±0.45 48.21±0.29
        rc: 76.26±0.46 69.33±0.32 49.47±0.43 56.02±0.59 63.51±0.20
        cc: 63.54±0.25 69.90±0.58 41.50±0.44 49.07±0.36 54.86±0.48
        proden: 76.47±0.25 73.44±0.12 45.10±0.16 54.05±0.15 66.14±0.10
        rplg-nm: 77.14±1.62 73.18±0.71 46.62±1.54 55.48±0.65 66.82±0.13
        """,  # the last row stands in table 3
    ),
    "table3": _rows(
        BENCHMARKS + REAL_WORLD,
        """
        rplg: 87.53±0.21 65.03±0.21 40.74±0.64 81.07±0.74 75.27±0.23 51.65±0.65 56.94±0.34 68.01±0.19
        rplg-nm: 85.43±0.52 61.18±0.34 35.35±1.01 77.14±1.62 73.18±0.71 46.62±1.54 55.48±0.65 66.82±0.13
        """,
    ),
    "rollback": _rows(
        BENCHMARKS,
        """
        rplg: 87.53 65.03 40.74
        no rollback: 85.42 62.16 33.27
        U recomputed: 86.21 62.87 35.12
        """,
    ),
}


TABLES["table1"]["rplg"] |= {"fmnist": (91.41, 0.13), "kmnist": (96.85, 0.11)}
TABLES["table1"]["rplg-nm"] = {name: TABLES["table3"]["rplg-nm"][name] for name in BENCHMARKS}


def published(table: str | None, label: str, data: str) -> Number | None:
    """Mean and standard deviation, where the paper has them."""
    return TABLES.get(table or "", {}).get(label, {}).get(data)
