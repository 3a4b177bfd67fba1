import pytest

from runtime.errors import UserError
from schemas.causes import Cause
from simulator.faults import FAULTS
from simulator.settings import FleetSettings
from simulator.target import Site, Truth, resolve

FLEET = FleetSettings().topology()


def found(cause: Cause, target: str) -> tuple[Site, Truth]:
    return resolve(FLEET, cause, FAULTS[cause].scope, target, 60_000)


def test_a_rank_is_a_gpu_on_a_node_in_a_rack() -> None:
    site, truth = found("gpu_degraded", "137")
    assert truth == Truth(
        fault="gpu_degraded",
        rank=137,
        node="r03-t03",
        gpu=FLEET.uuids[(2 * 18 + 2) * 4 + 1],
        rack="r03",
        onset_ms=60_000,
    )
    assert site.gpus.tolist() == [(2 * 18 + 2) * 4 + 1]
    assert site.ranks == (137,)


def test_the_gpus_name_serves_as_well() -> None:
    assert found("gpu_degraded", FLEET.uuids[10])[1].rank == 10


@pytest.mark.parametrize("target", ["r03-t03", "137", "r03-t03/mlx5_1/1"])
def test_a_node_may_be_named_by_itself_or_by_something_on_it(target: str) -> None:
    site, truth = found("host_cpu", target)
    assert (truth.node, truth.rack, truth.rank, truth.gpu) == ("r03-t03", "r03", None, None)
    assert site.ranks == (136, 137, 138, 139)


@pytest.mark.parametrize("target", ["r03", "r03-t18", "137"])
def test_a_rack_may_be_named_by_itself_or_by_something_in_it(target: str) -> None:
    site, truth = found("coolant_flow", target)
    assert (truth.rack, truth.node) == ("r03", None)
    assert len(site.gpus) == 72
    assert len(site.ranks) == 64


@pytest.mark.parametrize("target", ["r03-t03/mlx5_1/1", "r03-t03/mlx5_1", "137"])
def test_a_link_may_be_named_by_itself_or_by_its_rank(target: str) -> None:
    assert found("fabric_link", target)[1].link == "r03-t03/mlx5_1/1"
    assert found("fabric_link", target)[1].rank == 137


def test_without_a_target_the_seed_chooses() -> None:
    assert found("gpu_degraded", "")[1] == found("gpu_degraded", "")[1]
    other = FleetSettings(seed=8).topology()
    assert resolve(other, "gpu_degraded", "rank", "", 0)[1].rank != found("gpu_degraded", "")[1].rank


@pytest.mark.parametrize(
    ("cause", "target", "says"),
    [
        ("gpu_degraded", "512", "ranks 0 to 511"),
        ("gpu_degraded", "r03-t07", "wants a rank"),
        ("gpu_degraded", "r03-t18/mlx5_0/1", "no rank of the job runs there"),
        ("host_cpu", "r03", "wants a node"),
        ("fabric_link", "r03-t07", "wants a link"),
        ("coolant_flow", "r99", "nothing of that name"),
        ("gpu_degraded", "-1", "nothing of that name"),
        ("workload_change", "5", "leave --target out"),
    ],
)
def test_a_target_of_another_kind_is_one_line(cause: Cause, target: str, says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        found(cause, target)
    assert str(caught.value).startswith(f"--target {target}: ")
    assert "\n" not in str(caught.value)
