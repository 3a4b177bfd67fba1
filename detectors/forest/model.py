"""The isolation forest: trained with scikit-learn, carried as plain arrays, its scores calibrated to p-values.

A model is a file of arrays behind a JSON header and a checksum, never a pickle: reading one can build nothing but
numbers, and a damaged or foreign one is refused with a sentence.
"""

from collections.abc import Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from detectors.forest import magnitude
from detectors.forest.calibration import UNCALIBRATED, Calibration, Rarity, calibrate
from detectors.forest.scoring import DEPTH, INNER, LEAVES, Float32, Float64, forest_scores, judged_scores

MAGIC = b"LOCKSTEP-FOREST\n"

TREES = 100
SAMPLE = 256
"""The forest of the original paper (Liu, Ting, Zhou 2008): more trees do not change the order of scores."""

REACH_SHARE = 0.02
"""Disturbed rows added to the training (never to the calibration): without them no cut lies outside what is healthy,
and a deviation of 10 would score like one of 1000."""

REACH_Z = (3.0, 300.0)
"""The deviations of disturbed rows, log-uniform in between."""

NO_FLOOR = -1.0
"""Below every feature."""

LEAST_ROWS = 10_000

SMALLEST_P = 1e-12

CHANNELS = ("score", "log_largest_1", "log_rms", "log_residual")
"""What p-values come from. The forest sees odd combinations and saturates far out; the magnitudes see how far.
The p-value is the smallest of them, times their number (Bonferroni): never too small, whatever their dependence."""

_DIGEST = 32
_LENGTH = 4


class ModelError(Exception):
    """Bytes that are no usable model; the message says why in one line."""


class Training(msgspec.Struct, frozen=True, kw_only=True):
    """Where a model comes from: `source` in words ("simulated ..." where it is), the window, the rows."""

    source: str
    from_ms: int = 0
    to_ms: int = 0
    rows: int = 0


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    name: str
    schema: tuple[str, ...]
    trees: int
    sample: int
    floor: tuple[float, ...]
    training: Training
    calibration: dict[str, Calibration]


class Forest:
    """A trained forest over magnitude features (n, len(magnitude.NAMES)).

    `score` is in (0, 1], 0.5 is ordinary, higher is stranger; `p_value` is calibrated on healthy rows that the
    training did not see. Features below the median of the healthy ones are taken for that median: a forest would find
    a GPU strange for being calmer than most.
    """

    def __init__(self, header: _Header, feature: NDArray[np.uint8], threshold: Float32, leaf: Float32) -> None:
        self._header = header
        self._feature, self._threshold, self._leaf = feature, threshold, leaf
        self._floor = np.array(header.floor, dtype=np.float32)
        self._expected = float(_average_path(np.array([header.sample]))[0])
        self._column = {channel: magnitude.NAMES.index(channel) for channel in CHANNELS[1:]}
        self._rarity = Rarity([header.calibration[channel] for channel in CHANNELS], list(self._column.values()))

    @cached_property
    def name(self) -> str:
        """Name and checksum: what features carry as `model`."""
        return f"{self._header.name}-{self.to_bytes()[len(MAGIC) :][:4].hex()}"

    @property
    def schema(self) -> tuple[str, ...]:
        return self._header.schema

    @property
    def training(self) -> Training:
        return self._header.training

    @property
    def calibration(self) -> dict[str, Calibration]:
        return self._header.calibration

    def score(self, rows: Float32) -> Float64:
        """Scores of `rows`, as scikit-learn's -score_samples; NaN for a row with a NaN."""
        return forest_scores(rows, self._floor, self._feature, self._threshold, self._leaf, self._expected)

    def p_value(self, rows: Float32, scores: Float64) -> Float64:
        """How rare rows like these, with these `scores`, are among healthy ones; NaN where the score is."""
        return self._rarity.p_value(scores, rows, SMALLEST_P)

    def judge(self, rows: Float32, judged: NDArray[np.int32]) -> tuple[Float64, Float64, float]:
        """`score` and `p_value` of `rows` at once, NaN where too few metrics of a row were `judged`; and the lowest
        p-value (1 where there is none)."""
        return judged_scores(
            rows, judged, self._floor, self._feature, self._threshold, self._leaf, self._expected, self._rarity,
            SMALLEST_P,
        )  # fmt: skip

    def to_bytes(self) -> bytes:
        """The portable file: magic, digest of the rest, header length, JSON header, arrays (little-endian)."""
        header = msgspec.json.encode(self._header)
        arrays = self._feature.tobytes() + self._threshold.tobytes() + self._leaf.tobytes()
        rest = len(header).to_bytes(_LENGTH, "little") + header + arrays
        return MAGIC + blake2b(rest, digest_size=_DIGEST).digest() + rest

    @classmethod
    def from_bytes(cls, data: bytes) -> "Forest":
        """Read a portable file; raises ModelError with one line that says what is wrong."""
        if not data.startswith(MAGIC):
            raise ModelError("not a Lockstep forest model (its first bytes are others)")
        rest = data[len(MAGIC) + _DIGEST :]
        if data[len(MAGIC) : len(MAGIC) + _DIGEST] != blake2b(rest, digest_size=_DIGEST).digest():
            raise ModelError("a damaged forest model (its checksum does not match): fetch or train it again")
        header, arrays = _split(rest)
        if header.format != 1:
            raise ModelError(f"a forest model of format {header.format}; this version reads format 1: upgrade it")
        if header.schema != magnitude.NAMES:
            raise ModelError(f"a forest model for other features ({', '.join(header.schema)}): train it again")
        return cls(header, *_arrays(header, arrays))


def train(
    z: Float32,
    residual: Float32,
    missing_share: Float32,
    training: Training,
    random: np.random.Generator,
    name: str = "fleet",
    trees: int = TREES,
) -> Forest:
    """Grow and calibrate a forest on healthy deviations `z` (rows, metrics; NaN not judged), their residuals and
    missing shares.

    A tenth of the rows, drawn at random, grows the forest; the others calibrate it. Raises ModelError with fewer than
    10,000 rows: a tail of less than a hundred is none.
    """
    from sklearn.ensemble import IsolationForest

    if len(z) < LEAST_ROWS:
        raise ModelError(f"{len(z)} healthy rows; at least {LEAST_ROWS} are needed to train on")
    order = random.permutation(len(z))
    grow, keep = order[: len(z) // 10], order[len(z) // 10 :]
    reach = grow[: max(1, int(REACH_SHARE * len(grow)))]
    rows = np.concatenate(
        [
            magnitude.magnitudes(z[grow], residual[grow], missing_share[grow]),
            magnitude.magnitudes(*_disturbed(z[reach], residual[reach], random), missing_share[reach]),
        ]
    )
    grown = IsolationForest(n_estimators=trees, max_samples=SAMPLE, random_state=int(random.integers(2**31)))
    floor = np.median(rows[: len(grow)], axis=0)
    grown.fit(np.maximum(rows, floor))
    forest = from_sklearn(grown, msgspec.structs.replace(training, rows=len(z)), name, floor.tolist())
    return recalibrated(forest, magnitude.magnitudes(z[keep], residual[keep], missing_share[keep]))


def from_sklearn(grown: Any, training: Training, name: str = "fleet", floor: Sequence[float] | None = None) -> Forest:
    """A fitted sklearn.ensemble.IsolationForest as arrays, not calibrated yet; `floor` as it was trained with."""
    size = len(grown.estimators_)
    feature = np.zeros((size, INNER), dtype=np.uint8)
    threshold = np.full((size, INNER), np.inf, dtype=np.float32)
    leaf = np.zeros((size, LEAVES), dtype=np.float32)
    for t, (estimator, columns) in enumerate(zip(grown.estimators_, grown.estimators_features_, strict=True)):
        _fill(estimator.tree_, columns, feature[t], threshold[t], leaf[t])
    header = _Header(
        format=1,
        name=name,
        schema=magnitude.NAMES,
        trees=size,
        sample=int(grown.max_samples_),
        floor=tuple(floor) if floor is not None else (NO_FLOOR,) * len(magnitude.NAMES),
        training=training,
        calibration=dict.fromkeys(CHANNELS, UNCALIBRATED),
    )
    return Forest(header, feature, threshold, leaf)


def recalibrated(forest: Forest, healthy: Float32) -> Forest:
    """The same forest with p-values from these healthy features; raises ModelError where they cannot give any."""
    try:
        values = {channel: healthy[:, column].astype(np.float64) for channel, column in forest._column.items()}
        calibration = {"score": calibrate(forest.score(healthy))} | {k: calibrate(v) for k, v in values.items()}
    except ValueError as error:
        raise ModelError(f"the model cannot be calibrated: {error}") from None
    header = msgspec.structs.replace(forest._header, calibration=calibration)
    return Forest(header, forest._feature, forest._threshold, forest._leaf)


def _disturbed(z: Float32, residual: Float32, random: np.random.Generator) -> tuple[Float32, Float32]:
    """Copies of healthy rows with a few metrics (two in the mean) far off, each by itself."""
    least, most = np.log(REACH_Z)
    far = np.exp(random.uniform(least, most, z.shape)).astype(np.float32)
    ranks = random.random(z.shape).argsort(axis=1).argsort(axis=1)
    hit = ranks < np.minimum(random.geometric(0.3, (len(z), 1)), z.shape[1])
    return np.where(hit, far, z), np.where(hit, far, residual)


def _fill(tree: Any, columns: Any, feature: Any, threshold: Any, leaf: Any) -> None:
    """One tree into a complete heap; a leaf above the last level is repeated below it."""
    rest = _average_path(tree.n_node_samples)
    stack = [(0, 0, 0)]
    while stack:
        node, at, depth = stack.pop()
        left, right = int(tree.children_left[node]), int(tree.children_right[node])
        if left < 0:
            first, width = at, 1
            for _ in range(DEPTH - depth):
                first, width = 2 * first + 1, 2 * width
            leaf[first - INNER : first - INNER + width] = depth + rest[node]
            continue
        if depth == DEPTH:
            raise ModelError(f"a tree deeper than {DEPTH} levels: train with at most {2**DEPTH} samples a tree")
        feature[at] = columns[tree.feature[node]]
        threshold[at] = _rounded_down(float(tree.threshold[node]))
        stack += [(left, 2 * at + 1, depth + 1), (right, 2 * at + 2, depth + 1)]


def _rounded_down(value: float) -> np.float32:
    near = np.float32(value)
    return near if float(near) <= value else np.nextafter(near, np.float32(-np.inf))


def _average_path(samples: Any) -> Float64:
    """Expected path length of an unsuccessful search among n (Liu, Ting, Zhou 2008, equation 1)."""
    n = np.asarray(samples, dtype=np.float64)
    safe = np.maximum(n, 3)
    long = 2 * (np.log(safe - 1) + np.euler_gamma) - 2 * (safe - 1) / safe
    out: Float64 = np.where(n <= 1, 0.0, np.where(n == 2, 1.0, long))
    return out


def _split(rest: bytes) -> tuple[_Header, bytes]:
    length = int.from_bytes(rest[:_LENGTH], "little")
    try:
        header = msgspec.json.decode(rest[_LENGTH : _LENGTH + length], type=_Header)
    except msgspec.DecodeError as error:
        raise ModelError(f"a forest model whose header cannot be read: {error}") from None
    return header, rest[_LENGTH + length :]


def _arrays(header: _Header, data: bytes) -> tuple[NDArray[np.uint8], Float32, Float32]:
    size = header.trees
    inner, leaves = size * INNER, size * LEAVES
    if size < 1 or len(data) != inner + 4 * inner + 4 * leaves:
        raise ModelError(f"a forest model with {len(data)} bytes of arrays, which {size} trees do not make")
    feature = np.frombuffer(data, np.uint8, inner).reshape(size, INNER).copy()  # numba is slow with what is read-only
    threshold = np.frombuffer(data, "<f4", inner, inner).reshape(size, INNER).astype(np.float32)
    leaf = np.frombuffer(data, "<f4", leaves, 5 * inner).reshape(size, LEAVES).astype(np.float32)
    plausible = (
        int(feature.max()) < len(header.schema)
        and not np.isnan(threshold).any()
        and bool(((leaf >= 0) & np.isfinite(leaf)).all())
        and header.sample > 1
        and len(header.floor) == len(header.schema)
        and set(header.calibration) == set(CHANNELS)
        and all(calibration.is_plausible() for calibration in header.calibration.values())
    )
    if not plausible:
        raise ModelError("a forest model with impossible numbers in it: fetch or train it again")
    return feature, threshold, leaf
