import numpy as np
import pytest

from runtime.errors import UserError
from simulator.settings import FleetSettings
from simulator.topology import Topology


@pytest.fixture(scope="module")
def fleet() -> Topology:
    return FleetSettings().topology()


def test_eight_nvl72_racks(fleet: Topology) -> None:
    assert len(fleet.nodes) == 144
    assert (fleet.nodes[0], fleet.nodes[-1]) == ("r01-t01", "r08-t18")
    assert fleet.gpu_count == 576
    assert np.bincount(fleet.rack_of_gpu).tolist() == [72] * 8


def test_identities_are_unique_and_follow_the_seed(fleet: Topology) -> None:
    assert len(set(fleet.uuids)) == len(set(fleet.serials)) == 576
    assert len({fleet.boot_id(node) for node in range(144)}) == 144
    assert fleet.uuids == FleetSettings().topology().uuids
    assert set(fleet.uuids).isdisjoint(FleetSettings(seed=8).topology().uuids)


def test_sixteen_trays_of_every_rack_work_for_the_job(fleet: Topology) -> None:
    assert np.bincount(fleet.rack_of_gpu[fleet.gpu_of_rank]).tolist() == [64] * 8
    busy = {fleet.nodes[gpu // 4] for gpu in fleet.gpu_of_rank}
    assert len(busy) == 128
    assert not busy & {f"r{rack:02d}-t{tray}" for rack in range(1, 9) for tray in (17, 18)}


def test_every_rank_is_in_one_tensor_group_one_data_group_and_the_world(fleet: Topology) -> None:
    assert [len(g.ranks) for g in fleet.tensor_groups] == [4] * 128
    assert [len(g.ranks) for g in fleet.data_groups] == [128] * 4
    for groups in (fleet.tensor_groups, fleet.data_groups, (fleet.world,)):
        assert sorted(rank for g in groups for rank in g.ranks) == list(range(512))
    for tensor in fleet.tensor_groups:
        assert tensor.nodes == 1
        for data in fleet.data_groups:
            assert len(set(tensor.ranks) & set(data.ranks)) == 1


def test_communicator_ids_look_like_inspectors(fleet: Topology) -> None:
    ids = [g.id for g in (*fleet.tensor_groups, *fleet.data_groups, fleet.world)]
    assert len(set(ids)) == len(ids)
    assert all(len(id_) == 16 and int(id_, 16) > 0 for id_ in ids)


@pytest.mark.parametrize("job_size", [500, 600, 8 * 19 * 4])
def test_a_job_that_does_not_fill_trays_is_one_line(job_size: int) -> None:
    with pytest.raises(UserError, match=f"^--job-size {job_size}: .*multiple of 32"):
        FleetSettings(job_size=job_size).topology()
