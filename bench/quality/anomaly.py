"""How well the score ranks: labelled servers (SMD, ASD), streaming, without look-ahead, one configuration for both.

Two protocols. `halves`: the training half is healthy history, the test half is judged. `benchmark`: that of TSB-AD-M
(Liu and Paparrizos, NeurIPS 2024): only the test half, of which the first points (their number is published) are known
to be healthy; its published figures stand beside ours, and our own PCA must reproduce them. Ours is
`detectors.node.series.SeriesDetector` with the forest that ships: it is never trained on these machines. Its forest and
its p-value alone are shown as ablations.
"""

import csv
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest

from bench.quality import half_space
from bench.quality.vus import Quality, period_of, quality
from detectors.forest.model import Forest
from detectors.node.series import SeriesDetector

Floats = NDArray[np.float64]
Scores = dict[str, Floats]

FOLDER = "traces"
NEEDS = "smd"

SCALE = 1e6
"""SMD holds values times a million."""

FLOOR = 0.02
"""Both sets are scaled to the range of each metric: a spread of less than 2 % of it is nobody's concern, as healthy
nodes differ by as much (MLPerf)."""

RMS_CLIP = 20.0
WINDOWS = (10, 150)
SEEDS = (0, 1, 2)
RESIDUAL_VARIANCE = 0.95
PUBLISHED = ("PCA", "IForest", "EIF", "OCSVM", "TranAD")
METHODS_SHOWN = ("ours", "ours: forest only", "ours: p only", "rms z", "pca residual", "isolation forest")


class Machine(NamedTuple):
    """One server: history and test (ticks, metrics), labels of the test."""

    name: str
    history: Floats
    test: Floats
    label: NDArray[np.int64]


def run(folder: Path) -> dict[str, Any]:
    """Both protocols on all machines in the folder's `smd` and `asd`."""
    model = Forest.from_bytes((files("detectors") / "fleet.forest").read_bytes())
    sets = {name: machines(folder / name) for name in ("smd", "asd")}
    answer: dict[str, Any] = {"model": model.name, "half_space_trees": half_space.LEFT_OUT}
    answer["halves"] = {name: _halves(group, model) for name, group in sets.items() if group}
    if any("half-space trees" in methods for methods in answer["halves"].values()):
        answer["half_space_trees"] = "river's, in the tables above"
    answer["benchmark"] = _benchmark(sets["smd"], folder / "tsb_ad_published", model)
    return answer


main = run


def machines(folder: Path) -> list[Machine]:
    """Every `NAME.npz` of the folder: `train`, `test` (or both with `_e6`, times a million) and `label`."""
    out = []
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as arrays:
            history, test = (
                arrays[half] if half in arrays else arrays[f"{half}_e6"] / SCALE for half in ("train", "test")
            )
            label = arrays["label"].astype(np.int64)
        if label.any():
            out.append(Machine(path.stem, history.astype(np.float64), test.astype(np.float64), label))
    return out


def ours(histories: Sequence[Floats], tests: Sequence[Floats], model: Forest) -> list[Scores]:
    """Our scores of tests (ticks, metrics) after histories. All have the same metrics and are judged side by side, as
    the rows of one detector, which do not learn from each other."""
    detector = SeriesDetector([f"metric_{i}" for i in range(tests[0].shape[1])], len(tests), model, floor=FLOOR)
    for values in _side_by_side(histories, at_end=True):
        detector.learn(values)
    judged = [detector.update(values) for values in _side_by_side(tests, at_end=False)]
    tables = {
        "ours": np.array([j.distance for j in judged]),
        "ours: forest only": np.array([j.score for j in judged]),
        "ours: p only": -np.log(np.array([j.p for j in judged])),
    }
    return [
        {name: table[: len(test), i].astype(np.float64) for name, table in tables.items()}
        for i, test in enumerate(tests)
    ]


def _side_by_side(parts: Sequence[Floats], at_end: bool) -> NDArray[np.float32]:
    """(ticks, rows, metrics), shorter ones filled up with missing readings before or behind."""
    ticks = max(len(part) for part in parts)
    out = np.full((ticks, len(parts), parts[0].shape[1]), np.nan, dtype=np.float32)
    for i, part in enumerate(parts):
        out[ticks - len(part) if at_end else 0 :, i][: len(part)] = part
    return out


def rms_z(history: Floats, test: Floats) -> Floats:
    """Root mean square of z against the history's mean and spread, clipped at 20."""
    z = np.clip(_standard(history, test), -RMS_CLIP, RMS_CLIP)
    out: Floats = np.sqrt(np.square(z).mean(axis=1))
    return out


def pca_residual(history: Floats, test: Floats) -> Floats:
    """What the principal components of 95 % of the history's variance do not explain."""
    pca = PCA(RESIDUAL_VARIANCE).fit(_standard(history, history))
    z = _standard(history, test)
    out: Floats = np.sqrt(np.square(z - pca.inverse_transform(pca.transform(z))).mean(axis=1))
    return out


def raw_forest(history: Floats, test: Floats, seed: int, trees: int = 100, features: float = 1.0) -> Floats:
    """scikit-learn's isolation forest on raw values."""
    forest = IsolationForest(n_estimators=trees, max_features=features, random_state=seed).fit(history)
    out: Floats = -forest.score_samples(test)
    return out


def pca_distance(series: Floats) -> Floats:
    """The PCA of TSB-AD (Shyu et al. 2003 as PyOD has it): distances to the components, over their variance."""
    z = _standard(series, series)
    pca = PCA(0.25).fit(z[:, np.any(z != 0, axis=0)])
    z = z[:, np.any(z != 0, axis=0)]
    distance = np.sqrt(np.square(z[:, None, :] - pca.components_[None]).sum(axis=2))
    out: Floats = (distance / pca.explained_variance_ratio_).sum(axis=1)
    return out


def _standard(history: Floats, values: Floats) -> Floats:
    spread = history.std(axis=0)
    out: Floats = (values - history.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return out


def _halves(group: Sequence[Machine], model: Forest) -> dict[str, Any]:
    """Fit on the training half, judge the test half."""
    mine = ours([m.history for m in group], [m.test for m in group], model)
    table: dict[str, dict[str, Quality]] = {name: {} for name in METHODS_SHOWN}
    for machine, scores in zip(group, mine, strict=True):
        window = int(np.clip(period_of(machine.test[:, 0]), *WINDOWS))

        def figures(score: Floats, machine: Machine = machine, window: int = window) -> Quality:
            return quality(score, machine.label, window)

        for name, score in scores.items():
            table[name][machine.name] = figures(score)
        table["rms z"][machine.name] = figures(rms_z(machine.history, machine.test))
        table["pca residual"][machine.name] = figures(pca_residual(machine.history, machine.test))
        table["isolation forest"][machine.name] = _mean(
            [figures(raw_forest(machine.history, machine.test, seed)) for seed in SEEDS]
        )
        trees = half_space.scores(machine.history, machine.test, SEEDS[0])
        if trees is not None:
            table.setdefault("half-space trees", {})[machine.name] = figures(trees)
    return {name: _with_mean(rows) for name, rows in table.items()}


def _benchmark(group: Sequence[Machine], published: Path, model: Forest) -> dict[str, Any]:
    """The test half as one series, of which a first part is known to be healthy."""
    known = _published(published)
    group = [machine for machine in group if machine.name in known]
    if not group:
        return {"left_out": f"no machine of {published.name}/smd_mapping.csv is here"}
    healthy = [int(known[m.name]["file"].partition("_tr_")[2].partition("_")[0]) for m in group]
    pairs = [(m.test[:n], m.test[n:]) for m, n in zip(group, healthy, strict=True)]
    mine = ours([history for history, _ in pairs], [test for _, test in pairs], model)
    rows: dict[str, dict[str, float]] = {}
    for machine, n, scores in zip(group, healthy, mine, strict=True):
        window = period_of(machine.test[:, 0])
        row = rows[machine.name] = {}
        for name, score in scores.items():
            row[name] = quality(np.concatenate([np.zeros(n), score]), machine.label, window).vus_pr
        row["PCA"] = quality(pca_distance(machine.test), machine.label, window).vus_pr
        row["IForest"] = float(
            np.mean(
                [
                    quality(raw_forest(machine.test, machine.test, seed, 25, 0.8), machine.label, window).vus_pr
                    for seed in SEEDS
                ]
            )
        )
        row |= {f"published {name}": float(known[machine.name][name]) for name in PUBLISHED}
    names = list(next(iter(rows.values())))
    rows["mean"] = {name: float(np.mean([rows[m.name][name] for m in group])) for name in names}
    off = max(abs(rows[m.name]["PCA"] - rows[m.name]["published PCA"]) for m in group)
    return {"vus_pr": rows, "pca_largest_difference_to_published": off}


def _published(folder: Path) -> dict[str, dict[str, str]]:
    """The published row of each machine in the mapping."""
    mapping, table = folder / "smd_mapping.csv", folder / "multi_mergedTable_VUS-PR.csv"
    if not (mapping.exists() and table.exists()):
        return {}
    with table.open(newline="") as file:
        rows = {row["file"]: row for row in csv.DictReader(file)}
    with mapping.open(newline="") as file:
        return {row["machine"]: rows[row["tsb_file"]] for row in csv.DictReader(file) if row["tsb_file"] in rows}


def _mean(figures: Sequence[Quality]) -> Quality:
    return Quality(*(float(value) for value in np.mean(figures, axis=0)))


def _with_mean(rows: dict[str, Quality]) -> dict[str, dict[str, float]]:
    return {name: q._asdict() for name, q in (rows | {"mean": _mean(list(rows.values()))}).items()}


def text(answer: dict[str, Any]) -> str:
    """As tables."""
    lines = []
    for name, methods in answer["halves"].items():
        count = len(next(iter(methods.values()))) - 1
        lines.append(f"{name}, training half to test half, mean of {count}: VUS-PR, AUC-PR, best F1 (not adjusted)")
        for method, rows in methods.items():
            mean = rows["mean"]
            each = " ".join(f"{row['vus_pr']:.3f}" for machine, row in rows.items() if machine != "mean")
            lines.append(f"  {method:18} {mean['vus_pr']:.3f} {mean['auc_pr']:.3f} {mean['f1']:.3f}   VUS-PR: {each}")
    benchmark = answer["benchmark"]
    if "left_out" in benchmark:
        return "\n".join([*lines, f"TSB-AD-M protocol: {benchmark['left_out']}"])
    rows = benchmark["vus_pr"]
    lines.append(f"TSB-AD-M protocol, VUS-PR: {', '.join(rows)}")
    lines += [f"  {name:18} " + " ".join(f"{row[name]:.3f}" for row in rows.values()) for name in rows["mean"]]
    off = benchmark["pca_largest_difference_to_published"]
    lines += [f"  largest difference of PCA to the published figures: {off:.4f}"]
    return "\n".join([*lines, f"half-space trees: {answer['half_space_trees']}"])
