"""One controller's poller on a tree in memory: what is asked for, in which order, and when it gives up."""

import asyncio
from typing import Any

import numpy as np
import pytest

from collectors.cooling.redfish import frames
from collectors.cooling.redfish_http import RedfishError
from collectors.cooling.redfish_poll import LOCKED_OUT_S, Found, Poller, Word
from collectors.cooling.redfish_targets import Target
from collectors.cooling.redfish_tree import MOST_RESOURCES
from schemas.matrix import Matrix
from simulator.controllers import Tree, tray_tree

TARGET = Target("t1-bmc", "https://h", "t1", "r1", None, None, "", 1.0)
LEAKS = Matrix.of([f"t1/L{i}" for i in range(4)], ["leak_detected"], np.zeros((4, 1)))
DETECTORS = "/redfish/v1/Chassis/Chassis_0/ThermalSubsystem/LeakDetection/LeakDetectors"


class Controller:
    """Answers from a tree; `errors` by path come instead, `expands` says whether $expand works."""

    def __init__(self, tree: Tree, expands: bool = False) -> None:
        self.tree, self.expands = tree, expands
        self.errors: dict[str, str] = {}
        self.asked: list[str] = []
        self.closed = False
        if expands:
            self.tree["/redfish/v1"] |= {"ProtocolFeaturesSupported": {"ExpandQuery": {"NoLinks": True}}}

    async def get(self, uri: str) -> Any:
        self.asked.append(uri)
        path, _, query = uri.partition("?")
        path = path.rstrip("/")
        if path in self.errors or "*" in self.errors:
            raise RedfishError(self.errors.get(path, self.errors.get("*", "")), "as told")
        if path not in self.tree:
            raise RedfishError("not_found", "no such resource")
        document = self.tree[path]
        if query and self.expands:
            members = [self.tree[member["@odata.id"]] for member in document["Members"]]
            return document | {"Members": members}
        return document

    async def close(self) -> None:
        self.closed = True


class Watched:
    def __init__(self, controller: Controller) -> None:
        self.said: list[Found | Word] = []
        self.controller = controller
        self.poller = Poller(TARGET, controller, self.said.append, 10.0)

    def cycle(self) -> float:
        self.said.clear()
        self.controller.asked.clear()
        return asyncio.run(self.poller.cycle())

    @property
    def words(self) -> list[str]:
        return [item.code for item in self.said if isinstance(item, Word)]

    @property
    def rows(self) -> list[str]:
        return [row.name for item in self.said if isinstance(item, Found) for row in item.rows if row.section != "bmc"]


def test_the_first_poll_finds_and_reads_and_the_next_reads_only_leaks_first() -> None:
    watched = Watched(Controller(tray_tree(LEAKS, "t1")))
    assert watched.cycle() == pytest.approx(10.0, abs=1)
    first = set(watched.rows)
    assert len(first) == 7
    watched.cycle()
    assert first - set(watched.rows) == {"Chassis_0/Inlet"}  # sensors are read once a minute
    assert [uri.rpartition("/")[2] for uri in watched.controller.asked[:4]] == ["L0", "L1", "L2", "L3"]
    assert len(watched.controller.asked) == 6


def test_a_collection_is_asked_for_whole_where_the_controller_can_do_that() -> None:
    watched = Watched(Controller(tray_tree(LEAKS, "t1"), expands=True))
    watched.cycle()
    found = set(watched.rows)
    watched.cycle()
    assert found - set(watched.rows) == {"Chassis_0/Inlet"}
    assert watched.controller.asked[0] == f"{DETECTORS}?$expand=.($levels=1)"
    assert len(watched.controller.asked) == 3


def test_an_expansion_that_is_promised_and_not_kept_costs_one_request() -> None:
    controller = Controller(tray_tree(LEAKS, "t1"), expands=True)
    controller.expands = False
    watched = Watched(controller)
    watched.cycle()
    assert len(set(watched.rows)) == 7
    watched.cycle()
    assert not any("?" in uri for uri in controller.asked)


def test_sensors_are_read_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collectors.cooling.redfish_poll.SENSORS_S", 0.0)
    watched = Watched(Controller(tray_tree(LEAKS, "t1")))
    watched.cycle()
    found = set(watched.rows)
    watched.cycle()
    assert set(watched.rows) == found


def test_a_single_resource_that_does_not_answer_is_counted_and_the_others_read() -> None:
    controller = Controller(tray_tree(LEAKS, "t1"))
    watched = Watched(controller)
    watched.cycle()
    controller.errors[f"{DETECTORS}/L2"] = "http_500"
    watched.cycle()
    assert len(watched.rows) == 5
    assert watched.words == []
    (frame,) = frames(item for item in watched.said if isinstance(item, Found))
    assert frame.missing["http_500"] == 1
    assert "t1/Chassis_0/LeakDetectors/L2" not in frame.sections["leak"].rows


@pytest.mark.parametrize(("code", "requests"), [("timeout", 3), ("http_503", 3), ("unreachable", 1), ("tls", 1)])
def test_a_controller_that_does_not_answer_is_given_up_and_asked_ever_more_seldom(code: str, requests: int) -> None:
    controller = Controller(tray_tree(LEAKS, "t1"))
    watched = Watched(controller)
    watched.cycle()
    controller.errors["*"] = code
    pauses = []
    for number in range(6):
        pauses.append(watched.cycle())
        assert watched.words == ([code] if number == 0 else [])
        assert len(controller.asked) == requests
    assert pauses == [10.0, 20.0, 40.0, 60.0, 60.0, 60.0]
    controller.errors.clear()
    assert watched.cycle() == pytest.approx(10.0, abs=1)
    assert (watched.words, len(watched.rows)) == ([""], 6)


def test_another_trouble_is_another_word() -> None:
    controller = Controller(tray_tree(LEAKS, "t1"))
    watched = Watched(controller)
    controller.errors["*"] = "timeout"
    watched.cycle()
    controller.errors["*"] = "unreachable"
    watched.cycle()
    assert watched.words == ["unreachable"]


def test_a_refused_user_waits_long_enough_not_to_be_locked_out() -> None:
    controller = Controller(tray_tree(LEAKS, "t1"))
    controller.errors["*"] = "unauthorized"
    assert Watched(controller).cycle() == LOCKED_OUT_S


def test_a_tree_without_end_is_left_at_a_bound() -> None:
    class Endless(Controller):
        async def get(self, uri: str) -> Any:
            self.asked.append(uri)
            if uri == "/redfish/v1/":
                return {"@odata.type": "#ServiceRoot.v1.ServiceRoot", "Chassis": {"@odata.id": "/redfish/v1/Chassis"}}
            return {"Members": [{"@odata.id": f"{uri}/0"}, {"@odata.id": f"{uri}/1"}]}

    watched = Watched(Endless({}))
    watched.cycle()
    assert len(watched.controller.asked) <= MOST_RESOURCES
    assert watched.words == []


def test_a_document_that_breaks_the_parser_stops_no_poller(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("in the parser")

    monkeypatch.setattr("collectors.cooling.redfish_poll.parse", broken)
    watched = Watched(Controller(tray_tree(LEAKS, "t1")))
    assert watched.cycle() == 10.0
    assert watched.words == ["crashed"]


def test_the_session_is_ended_with_the_poller() -> None:
    controller = Controller(tray_tree(LEAKS, "t1"))

    async def run() -> None:
        task = asyncio.create_task(Poller(TARGET, controller, lambda _: None, 10.0).run())
        while not controller.asked:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert controller.closed


def test_rows_of_one_condition_shown_twice_are_one_and_the_first_number_holds() -> None:
    both = Watched(Controller(tray_tree(LEAKS, "t1")))
    both.cycle()
    found = [item for item in both.said if isinstance(item, Found)]
    (frame,) = frames(found + found)
    assert len(frame.sections["leak"].rows) == 4
    assert frame.rack == "r1"
    assert frame.sections["bmc"].rows == ("t1-bmc",)


def test_gpus_and_their_nvlink_ports_are_found_under_their_system_and_read_once_a_minute() -> None:
    system, gpu = "/redfish/v1/Systems/HGX", "/redfish/v1/Systems/HGX/Processors/GPU_0"
    port = f"{gpu}/Ports/NVLink_0"

    def link(uri: str) -> dict[str, str]:
        return {"@odata.id": uri}

    def collection(uri: str, *members: str) -> dict[str, Any]:
        return link(uri) | {"Members": [link(member) for member in members]}

    tree: Tree = {
        "/redfish/v1": {"@odata.type": "#ServiceRoot.v1.ServiceRoot", "Systems": link("/redfish/v1/Systems")},
        "/redfish/v1/Systems": collection("/redfish/v1/Systems", system),
        system: {"@odata.type": "#ComputerSystem.v1.ComputerSystem", "Processors": link(f"{system}/Processors")},
        f"{system}/Processors": collection(f"{system}/Processors", gpu),
        gpu: {
            "@odata.type": "#Processor.v1.Processor",
            "Metrics": link(f"{gpu}/ProcessorMetrics"),
            "Ports": link(f"{gpu}/Ports"),
        },
        f"{gpu}/ProcessorMetrics": {
            "@odata.type": "#ProcessorMetrics.v1.ProcessorMetrics", "PCIeErrors": {"ReplayCount": 7},
        },
        f"{gpu}/Ports": collection(f"{gpu}/Ports", port),
        port: {
            "@odata.type": "#Port.v1.Port", "PortProtocol": "NVLink", "LinkStatus": "LinkDown",
            "Metrics": link(f"{port}/Metrics"),
        },
        f"{port}/Metrics": {"@odata.type": "#PortMetrics.v1.PortMetrics", "Oem": {"Nvidia": {"EffectiveBER": 1e-9}}},
    }  # fmt: skip
    watched = Watched(Controller(tree))
    watched.cycle()
    (frame,) = frames([item for item in watched.said if isinstance(item, Found)])
    assert frame.sections["processor"].rows == ("t1/Systems/HGX/Processors/GPU_0",)
    assert frame.sections["processor"].column("pcie_replay_count").tolist() == [7.0]
    assert frame.sections["port"].rows == ("t1/Systems/HGX/Processors/GPU_0/NVLink_0",)
    assert frame.sections["port"].column("up").tolist() == [0.0]
    assert frame.sections["port"].column("effective_ber_log10").tolist() == [-9.0]
    watched.cycle()
    assert not watched.rows
