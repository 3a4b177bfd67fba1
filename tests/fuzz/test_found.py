"""What fuzzing found, each once: what was an exception of Python, or seconds of CPU time, and is neither now."""

import gzip

import pytest

from bench.fuzz import seeds
from bench.fuzz.parser import fed
from bench.fuzz.parsers import PARSERS

DEEP = b"\x91" * 3000
GZIP = gzip.compress(seeds.STEP_TABLES[0], mtime=0)
DAMAGED = GZIP[:40] + bytes(60) + GZIP[100:]
SCRAPE = b'DCGM_FI_DEV_GPU_TEMP{UUID="GPU-a",gpu="0"} 55\n'
OPERATION = seeds.INSPECTOR[0].split(b"\n")[0]

REFUSED = {
    "a record nested 3,000 deep": ("wire", b"\x82\xa4type\xa5event\xa1x" + DEEP),
    "a record whose type is no text": ("wire", b"\x81\xa4type\xa2\xff\xff"),
    "damage inside gzip": ("analyze/steps", DAMAGED),
    "damage inside gzip, unrecognised": ("analyze", DAMAGED),
    "a Redfish document in damaged gzip": ("analyze/redfish", DAMAGED),
    "JSON lines that are no UTF-8": ("replay/jsonl", b'{"ts_ms":1,"node":"\x91"}\n\xff\n'),
    "JSON lines nested 3,000 deep": ("replay/jsonl", b'{"ts_ms":' + b"[" * 3000 + b"\n"),
    "a line without the time of the first": ("replay/jsonl", b'{"ts_ms":1,"node":"n","load_1m":2}\n{"node":"n"}\n'),
    "a time beyond the year 2100": ("replay/jsonl", b'{"ts":1e300,"node":"n","load_1m":2}\n'),
    "a row without its node": ("replay/jsonl", b'{"ts":1,"node":"","load_1m":2}\n'),
    "damaged gzip of JSON lines": ("replay/jsonl.gz", DAMAGED),
    "two columns of one name": ("replay/csv", b"ts_ms,node,load_1m,load_1m\n1,n,2,3\n"),
    "a table that is no UTF-8": ("replay/csv", b"ts_ms,node,load_1m\n1,\xff\xff,2\n"),
    "a number of 5,000 digits in a list of controllers": ("redfish_targets", b"timeout_s = " + b"9" * 5000),
    "a list of controllers nested 3,000 deep": ("redfish_targets", b"a = " + b"[" * 3000),
    "a setting that is no UTF-8": ("settings", b"LOCKSTEP_NODE=\xff\xfe\n"),
}
"""What cannot be used, and is refused in the parser's own words."""

TAKEN = {
    "a GPU that two lines place differently": (
        "dcgm", SCRAPE + b'DCGM_FI_DEV_GPU_TEMP{UUID="GPU-a",gpu="1",pci_bus_id="00000000:1B:00.0"} 56\n',
    ),
    "a GPU number of 400 digits": ("dcgm", SCRAPE.replace(b'"0"', b'"' + b"1" * 400 + b'"')),
    "a counter with a unit": ("dcgm", b'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{UUID="GPU-a",gpu="0"} 5kW\n'),
    "a printed value of 64,000 digits": ("printed", b"1" * 64_000 + b"?"),
    "a kernel record of 400 digits": ("kernel", b"4,7," + b"1" * 400 + b",-;NVRM: Xid (PCI:0009:01:00): 79\n"),
    "a mark of 400 digits": ("kernel", b"boot " + b"1" * 400),
    "a time since boot of 4,400 digits": ("log_line", b"4,1," + b"1" * 4400 + b",-;text"),
    "a journal's time of 4,400 digits": (
        "log_line", b'{"MESSAGE":"m","_SOURCE_MONOTONIC_TIMESTAMP":"' + b"1" * 4400 + b'"}',
    ),
    "an NVLink of 5,000 digits": (
        "log_line", b"NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link " + b"1" * 5000,
    ),
    "an SXID of 400 digits": ("log_line", b"detected NVSwitch fatal error " + b"2" * 400 + b" on fid 0"),
    "a temperature of 400 digits": ("hwmon", seeds.joined(seeds.HWMON | {"temp1_input": b"1" * 400})),
    "a counter of 400 digits in /proc": (
        "host", seeds.joined(seeds.HOST | {"meminfo": b"MemTotal: %s kB" % (b"1" * 400)}),
    ),
    "a port's counter of 5,000 digits": (
        "fabric", seeds.joined(seeds.PORT | {"ports/1/counters/port_xmit_wait": b"1" * 5000}),
    ),
    "a device number of 5,000 digits": (
        "processes", seeds.joined(seeds.PROCESS | {"environ": b"RANK=3\0CUDA_VISIBLE_DEVICES=" + b"1" * 5000}),
    ),
    "a rank of 400 digits": ("processes", seeds.joined(seeds.PROCESS | {"environ": b"RANK=" + b"1" * 400})),
    "a pipeline step that takes no time": (
        "analyze/pipeline-trace", seeds.PIPELINE[0].replace(b",15\n", b",0\n"),
    ),
    "a peer of 5,000 digits": ("flight_recorder", seeds.FLIGHT[3].replace(b"0->1", b"0->" + b"1" * 5000)),
    "a time of 60,000 digits": ("cooling_bms", b"7" * 60_000 + b"," + seeds.BUILDING[1].split(b",", 3)[3]),
    "a duration of 400 digits": ("cooling_bms", seeds.BUILDING[1].replace(b"12.5ms", b"9" * 400 + b"h")),
    "a stamp of the year 33658": (
        "cooling_bms",
        seeds.BUILDING[0] + b'BMS/v1/PUB/Value/Rack/RackPower/a/rack1/b {"value":1,"timestamp":999999999999999}\n',
    ),
    "a kernel's stop in 10^300 us": (
        "nccl", OPERATION.replace(b'"kernel_stop_ts":1796000000000400', b'"kernel_stop_ts":1e300'),
    ),
    "a sequence number of 30 digits": ("nccl", OPERATION.replace(b'"coll_sn":0', b'"coll_sn":' + b"1" * 30)),
}  # fmt: skip
"""What costs no more than itself: the rest of the input is read."""


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused_in_the_parser_s_own_words(what: str) -> None:
    name, data = REFUSED[what]
    assert not fed(PARSERS[name], data)


@pytest.mark.parametrize("what", TAKEN)
def test_it_costs_only_itself(what: str) -> None:
    name, data = TAKEN[what]
    assert fed(PARSERS[name], data)
