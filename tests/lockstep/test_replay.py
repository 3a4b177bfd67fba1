"""Tables and recordings become the records they tell of; what is wrong with them is one line."""

import gzip
from pathlib import Path

import pyarrow as arrow
import pytest
from pyarrow import parquet

from lockstep.replay import Paced, files, read, send_all
from lockstep.replay.recording import frame
from lockstep.replay.table import Columns
from runtime.errors import UserError
from schemas import NodeFrame, Record
from schemas.codec import encode
from schemas.examples import EXAMPLES
from schemas.readable import readable


def frames(path: Path, **metrics: str) -> list[NodeFrame]:
    found = list(read(path, Columns(metrics), "c", 5))
    assert all(isinstance(record, NodeFrame) for record in found)
    return [record for record in found if isinstance(record, NodeFrame)]


def test_two_samples_of_one_node_in_one_second_are_two_records(tmp_path: Path) -> None:
    path = tmp_path / "power.parquet"
    table = arrow.table({"time_ms": [1000, 1400, 1400, 2000], "node": [1, 1, 2, 1], "power_w": [500, 510, 9, 520]})
    parquet.write_table(table, path)
    found = frames(path, power_w="node_power_w")
    assert [(f.node, f.seq, f.ts_ms, float(f.sections["host"].values()[0, 0])) for f in found] == [
        ("1", 0, 1000, 500.0),
        ("1", 1, 1400, 510.0),
        ("2", 0, 1400, 9.0),
        ("1", 2, 2000, 520.0),
    ]
    assert len({f.identity for f in found}) == 4


@pytest.mark.parametrize("name", ["gpus.csv", "gpus.jsonl"])
def test_gpus_of_one_node_and_time_are_one_frame_and_a_gap_is_nan(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.endswith("csv"):
        path.write_text("ts,node,gpu,power_w,colour\n1,n,GPU-a,700,red\n1,n,GPU-b,,red\n2.5,n,GPU-a,701,red\n")
    else:
        path.write_text(
            '{"ts": 1, "node": "n", "gpu": "GPU-a", "power_w": 700}\n'
            '{"ts": 1, "node": "n", "gpu": "GPU-b", "power_w": null}\n'
            '{"ts": 2.5, "node": "n", "gpu": "GPU-a", "power_w": 701}\n'
        )
    first, second = frames(path)
    assert readable(first.sections["gpu"]) == {"GPU-a": {"power_w": 700.0}, "GPU-b": {"power_w": None}}
    assert [gpu.uuid for gpu in first.gpus] == ["GPU-a", "GPU-b"]
    assert (second.ts_ms, second.seq) == (2500, 1)


def test_a_recording_comes_back_as_it_was_and_a_torn_end_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "monday.records"
    whole = b"".join(frame(encode(example)) for example in EXAMPLES)
    path.write_bytes(whole + frame(encode(EXAMPLES[0]))[:-5])
    found = list(read(path, Columns(), "c", 0))
    assert [readable(record) for record in found] == [readable(example) for example in EXAMPLES]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", "node,power_w\nn,1\n", "no time column"),
        ("a.csv", "ts,power_w\n1,1\n", "no column `node`"),
        ("a.csv", "ts,node,colour\n1,n,red\n", "no column is a metric of section host"),
        ("a.csv", "ts,node,gpu,power_w\n2,n,g,1\n1,n,g,1\n", "not in order of ts"),
        ("a.csv", "ts,node,gpu,power_w\n2,n,g,many\n", "a value is no number"),
        ("a.jsonl", '{"ts": 1}\nnonsense\n', "line 2 is no JSON object"),
        ("a.parquet", "PAR0", "Parquet"),
        ("a.records", "garbage garbage", "no recording, or broken at byte 0"),
        ("a.records", "\x02\x00\x00\x00hi", "record at byte 0 cannot be read"),
        ("a.txt", "x", "neither a recording"),
    ],
)
def test_a_file_that_cannot_be_replayed_is_one_line(tmp_path: Path, name: str, content: str, said: str) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(UserError, match=said) as caught:
        list(read(path, Columns(), "c", 0))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_of_gzip_that_was_cut_off_every_whole_row_is_replayed_before_it_is_said(tmp_path: Path) -> None:
    rows = [b'{"ts_ms": %d, "node": "n", "load_1m": %d, "noise": "%x"}\n' % (n, n, 7**n) for n in range(60)]
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(rows))[:-400])
    sent: list[Record] = []
    with pytest.raises(UserError, match="its gzip is cut off"):
        sent.extend(read(path, Columns(), "c", 0))
    assert 0 < len(sent) < 60
    assert [record.ts_ms for record in sent] == list(range(len(sent)))


def test_a_column_that_is_mapped_to_nothing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("ts,node,load_1m\n1,n,1\n")
    with pytest.raises(UserError, match=r"--map watts=node_power_w: .* no column watts"):
        frames(path, watts="node_power_w")
    with pytest.raises(UserError, match="--map load_1m=charm: no metric charm"):
        frames(path, load_1m="charm")


def test_folders_are_searched_and_emptiness_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing to replay"):
        files([str(tmp_path)])
    for name in ("b.csv", "a.records", "notes.txt"):
        (tmp_path / name).write_text("x")
    assert [path.name for path in files([str(tmp_path)])] == ["a.records", "b.csv"]


def test_speed_stretches_the_records_own_rhythm() -> None:
    class Clock:
        now = 0.0

        def now_ms(self) -> int:
            return 0

        def monotonic(self) -> float:
            return self.now

        def sleep(self, seconds: float) -> None:
            self.now += max(0.0, seconds)

    clock, at = Clock(), []
    records = [NodeFrame(cluster="c", node="n", run_id=0, seq=i, ts_ms=ts) for i, ts in enumerate((5000, 15000, 25000))]

    def send(record: Record) -> None:
        at.append(clock.now)

    assert send_all(iter(records), send, Paced(10.0, clock), lambda count, ts_ms: None) == 3
    assert at == [0.0, 1.0, 2.0]
