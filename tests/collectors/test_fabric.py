"""Network ports: parsers, a tree that changes, and a real H100 node's."""

import tarfile
from pathlib import Path
from typing import Any

import pytest
from fake_clock import FakeClock

from collectors.base import NoData
from collectors.host.fabric import FabricCollector, Speed, parse_rate, parse_state
from schemas.event import Event

REAL = Path(__file__).parents[2] / ".." / "shared" / "data" / "products" / "gpud" / "infiniband"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("400 Gb/sec (4X NDR)", Speed(50e9, 4)),
        ("2.5 Gb/sec (1X SDR)", Speed(0.3125e9, 1)),
        ("100 Gb/sec", Speed(12.5e9, None)),
    ],
)
def test_rates(text: str, expected: Speed) -> None:
    assert parse_rate(text) == expected


@pytest.mark.parametrize("text", ["", "N/A", "fast"])
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(ValueError, match="no rate"):
        parse_rate(text)


def test_states() -> None:
    assert parse_state("4: ACTIVE") == (4, "ACTIVE")
    assert parse_state("3: Disabled") == (3, "Disabled")


def port(root: Path, name: str, number: str = "1", **files: str) -> Path:
    folder = root / "class" / "infiniband" / name / "ports" / number
    told = {
        "rate": "400 Gb/sec (4X NDR)", "state": "4: ACTIVE", "phys_state": "5: LinkUp", "link_layer": "InfiniBand",
        "counters/port_xmit_data": "1000", "counters/port_rcv_data": "1000", "counters/link_downed": "0",
        "counters/symbol_error": "0",
    } | files  # fmt: skip
    for file, text in told.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text + "\n")
    device = folder.parents[1]
    (device / "board_id").write_text("MT_0000000838\n")
    (device / "device").mkdir(exist_ok=True)
    (device / "device" / "uevent").write_text("DRIVER=mlx5_core\nPCI_SLOT_NAME=0000:5c:00.0\n")
    return folder


class Rig:
    def __init__(self, root: Path) -> None:
        self.clock = FakeClock()
        self.collector = FabricCollector(root, self.clock)

    def tick(self, seconds: float = 1.0) -> tuple[dict[str, dict[str, float]], list[Event]]:
        self.clock.advance(seconds)
        reading = self.collector.collect(self.clock.now_ms())
        matrix = reading.sections["fabric"]
        rows = {
            name: dict(zip(matrix.columns, (float(f"{value:.6g}") for value in values), strict=True))
            for name, values in zip(matrix.rows, matrix.values().tolist(), strict=True)
        }
        return rows, [draft for draft in reading.drafts if isinstance(draft, Event)]


def test_traffic_is_in_bytes_and_errors_come_every_ten_seconds(tmp_path: Path) -> None:
    folder, rig = port(tmp_path, "mlx5_0"), Rig(tmp_path)
    rows, events = rig.tick()
    assert (rows["mlx5_0/1"]["up"], rows["mlx5_0/1"]["speed_bytes_per_s"], events) == (1.0, 50e9, [])
    (folder / "counters/port_xmit_data").write_text("2000\n")
    rows, _ = rig.tick(2)
    assert rows["mlx5_0/1"]["tx_bytes_per_s"] == 4 * 1000 / 2
    seen = sum("symbol_errors_per_s" in rig.tick()[0]["mlx5_0/1"] for _ in range(20))
    assert seen == 2


def test_a_port_that_goes_down_and_comes_back_is_two_events(tmp_path: Path) -> None:
    folder, rig = port(tmp_path, "mlx5_0"), Rig(tmp_path)
    rig.tick()
    (folder / "state").write_text("1: DOWN\n")
    rows, (down,) = rig.tick()
    assert (down.kind, down.severity, down.detail["link"], down.pci) == (
        "link_down",
        "critical",
        "mlx5_0/1",
        "0000:5c:00.0",
    )
    assert rows["mlx5_0/1"]["up"] == 0.0
    assert rig.tick()[1] == []
    (folder / "state").write_text("4: ACTIVE\n")
    _, (up,) = rig.tick()
    assert up.kind == "link_up"


def test_a_flap_between_two_looks_is_told_by_its_counter(tmp_path: Path) -> None:
    folder, rig = port(tmp_path, "mlx5_0"), Rig(tmp_path)
    rig.tick()
    (folder / "counters/link_downed").write_text("2\n")
    _, events = rig.tick()
    assert [event.kind for event in events] == ["link_down", "link_up"]
    (folder / "counters/link_downed").write_text("0\n")
    assert rig.tick()[1] == []


def test_a_port_that_never_was_up_is_no_fault(tmp_path: Path) -> None:
    port(tmp_path, "mlx5_0", state="1: DOWN", phys_state="3: Disabled")
    rows, events = Rig(tmp_path).tick()
    assert (rows["mlx5_0/1"]["up"], events) == (0.0, [])


def test_a_device_that_vanishes_while_in_use_is_down(tmp_path: Path) -> None:
    port(tmp_path, "mlx5_0")
    port(tmp_path, "mlx5_1")
    rig = Rig(tmp_path)
    rig.tick()
    (tmp_path / "class/infiniband/mlx5_1").rename(tmp_path / "away")
    rows, (down,) = rig.tick(40)
    assert (down.kind, down.detail["link"]) == ("link_down", "mlx5_1/1")
    assert rows["mlx5_1/1"]["up"] == 0.0
    assert rig.tick(40)[1] == []


def test_a_port_is_compared_with_its_likes_and_its_own_best(tmp_path: Path) -> None:
    port(tmp_path, "mlx5_0")
    folder = port(tmp_path, "mlx5_1", rate="200 Gb/sec (2X NDR)")
    rows, _ = Rig(tmp_path).tick()
    slow = rows["mlx5_1/1"]
    assert (slow["speed_bytes_per_s"], slow["speed_most_bytes_per_s"]) == (25e9, 50e9)
    assert (slow["width_lanes"], slow["width_most_lanes"]) == (2.0, 4.0)
    (folder.parents[1] / "board_id").write_text("MT_OTHER\n")
    rows, _ = Rig(tmp_path).tick()
    assert rows["mlx5_1/1"]["speed_most_bytes_per_s"] == 25e9


def test_odd_files_cost_their_own_columns_only(tmp_path: Path) -> None:
    folder, rig = port(tmp_path, "mlx5_0", rate="N/A"), Rig(tmp_path)
    (folder / "counters/port_xmit_data").write_bytes(b"\xff\n")
    (folder / "counters/port_rcv_data").unlink()
    rig.tick()
    rows, _ = rig.tick()
    assert rows["mlx5_0/1"]["up"] == 1.0
    reading = rig.collector.collect(rig.clock.now_ms())
    assert reading.missing["unsupported"] >= 4


def test_no_ports_are_no_data(tmp_path: Path) -> None:
    with pytest.raises(NoData):
        FabricCollector(tmp_path, FakeClock()).collect(0)


def test_a_real_h100_node(tmp_path: Path) -> None:
    tars = sorted(REAL.glob("*.tar")) if REAL.is_dir() else []
    if not tars:
        pytest.skip("a real node's /sys/class/infiniband is not beside the project (shared/data/products/gpud)")
    with tarfile.open(tars[0]) as tar:
        tar.extractall(tmp_path, filter="data")
    (tmp_path / "class").mkdir()
    next(tmp_path.rglob("mlx5_0")).parent.rename(tmp_path / "class" / "infiniband")
    rig = Rig(tmp_path)
    rig.tick()
    rows, events = rig.tick()
    assert events == []
    assert set(rows) == {f"mlx5_{n}/1" for n in (0, 1, 4, 5, 6, 7, 8, 9, "bond_0")}
    ports: dict[Any, Any] = {
        name: (row["up"], row["speed_bytes_per_s"], row["width_lanes"]) for name, row in rows.items()
    }
    assert ports["mlx5_0/1"] == (1.0, 50e9, 4.0)
    assert ports["mlx5_bond_0/1"] == (1.0, 25e9, 2.0)
    assert all(row["speed_bytes_per_s"] == row["speed_most_bytes_per_s"] for row in rows.values())
    assert all(row["tx_bytes_per_s"] == 0.0 for row in rows.values())
