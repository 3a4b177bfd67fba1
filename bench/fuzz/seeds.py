"""Small samples of every format, from which the fuzzer starts: our own, and the fixtures of the tests."""

import gzip
import json
import pickle
import struct
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[2] / "tests"

WIRE = tuple(bytes.fromhex(path.read_text()) for path in sorted((TESTS / "golden/wire").glob("*.hex")))
"""One record of every kind and version, as its golden file has it."""


def frame(payload: bytes) -> bytes:
    """One record of a recording."""
    return struct.pack("<I", len(payload)) + payload


RECORDING = b"".join(frame(payload) for payload in WIRE)

REDFISH = tuple(path.read_bytes() for path in sorted((TESTS / "data/redfish").glob("*.json")))
BUILDING = tuple((TESTS / "data/cooling_bms" / name).read_bytes() for name in ("bridge.log", "recorded.csv"))
KMSG = (TESTS / "data/kernel/gpu_falls.kmsg").read_bytes()

_HEADER = '"header":{"id":"0xc1","rank":%d,"n_ranks":2,"nnodes":1,"comm_name":"default_pg"}'
_METADATA = '"metadata":{"inspector_output_format_version":"v4.2","dump_timestamp_us":1796000000000000,"hostname":"n1",'
_COLLECTIVE = (
    '"coll_perf":{"coll":"AllReduce","coll_sn":%d,"coll_msg_size_bytes":16777216,"coll_exec_time_us":%d,'
    '"coll_timing_source":"kernel_gpu","coll_algo":"RING","coll_proto":"LL128","coll_algobw_gbs":59.2,'
    '"coll_busbw_gbs":103.7,"event_trace_ts":{"kernel_events":[{"kernel_start_ts":1796000000000000,'
    '"kernel_stop_ts":1796000000000400}]}}'
)
_WHOLE = "{" + _HEADER + "," + _METADATA + '"pid":%d},' + _COLLECTIVE + "}"
INSPECTOR = (
    "\n".join(_WHOLE % (rank, 7 + rank, sn, 400 + sn) for sn in range(6) for rank in (0, 1)).encode() + b"\n",
    b'{"header":{"id":"0xc1","rank":0,"n_ranks":2},"metadata":{"hostname":"n1","pid":7},"p2p_perf":{"p2p":"Send",'
    b'"p2p_sn":3,"p2p_msg_size_bytes":4096,"p2p_exec_time_us":12.5,"p2p_peer":1}}\n',
    b'{"header":{"id":"0xc1","rank":1,"n_ranks":2},"metadata":{"hostname":"n1","pid":8,"dump_timestamp_us":1796e12},'
    b'"dump_stats":{"coll_records":1,"p2p_records":0,"coll_dropped_since_last_dump":2}}\n'
    b'{"coll_perf":{"coll":"AllGather","coll_sn":5,"coll_msg_size_bytes":1024,"coll_exec_time_us":88}}\n'
    b'{"header":{"id":"0xc1","rank":1,"n_ranks":2},"metadata":{"hostname":"n1","pid":8},"proxy_trace":{}}\n',
)
INSPECTOR_METRICS = (
    b'nccl_bus_bandwidth_gbs{version="v5.1",node="n1",gpu="GPU-a",comm_name="pg",nranks="8",collective="AllReduce",'
    b'message_size="16MB",algo_proto="RING_LL128",slurm_job_id="71"} 103.7\n'
    b'nccl_collective_exec_time_microseconds{hostname="n1",gpu_device_id="GPU0",comm_id="0xc1",nranks="8",rank="3",'
    b'collective="AllGather",message_size="18446744073709TB",coll_sn="51"} 812.5 1796000000000\n',
)

_LABELS = 'gpu="0",UUID="GPU-a",pci_bus_id="00000000:1B:00.0",modelName="NVIDIA H100",DCGM_FI_DRIVER_VERSION="580.95"'
DCGM = (
    f"""# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{{{_LABELS}}} 1980
DCGM_FI_DEV_POWER_USAGE{{{_LABELS}}} 412.500000
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{_LABELS}}} 58413337500
DCGM_FI_DEV_FB_USED{{{_LABELS},GPU_I_ID="1",GPU_I_PROFILE="1g.10gb"}} 4096
DCGM_FI_DEV_POWER_VIOLATION{{{_LABELS}}} 9223372036854775794
DCGM_FI_DEV_XID_ERRORS{{{_LABELS}}} 79
DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L3{{{_LABELS}}} 5
DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER_FLOAT{{{_LABELS},nvlink="3"}} 1.5e-15
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{_LABELS}}} 0.615
""".encode(),
)
GPU_TABLES = (
    b"timestamp, index, uuid, pci.bus_id, temperature.gpu, power.draw [W], clocks_throttle_reasons.active\n"
    b"2026/11/30 16:00:00.500, 0, GPU-a, 00000000:1B:00.0, 55, 401.22 W, 0x0000000000000004\n"
    b"2026/11/30 16:00:01.500, 0, GPU-a, 00000000:1B:00.0, [N/A], ERR!, [GPU is lost]\n",
    b"#Date       Time        gpu    pwr  gtemp   sm  pclk\n#YYYYMMDD   HH:MM:SS    Idx      W      C    %   MHz\n"
    b" 20261130   16:00:00      0    401     55   97  1980\n 20261130   16:00:01      0      -     55   97  1980\n",
    b"#Entity   TMPTR   POWER   SMCLK   SMACT\nID\nGPU 0     55      401.2   1980    0.97\n",
    b"ts_ms,node,gpu,power_w,temperature_c,DCGM_FI_DEV_XID_ERRORS\n1796000000000,n1,GPU-a,700,61,0\n"
    b"1796000001000,n1,GPU-a,699,61,48\n",
)

_RAS_STATUS = {"init_state": 0, "async_error": 0, "finalize_called": False, "abort_flag": False}


def _ras_rank(rank: int) -> dict[str, Any]:
    counts = {"Broadcast": 0, "AllReduce": 5 + rank}
    return {"rank": rank, "host": "192.0.2.1", "pid": 100, "status": _RAS_STATUS, "collective_counts": counts}


_COMMUNICATOR = {"hash": "0xae94", "size": 3, "ranks": [_ras_rank(0), _ras_rank(1)], "missing_ranks": [_ras_rank(2)]}
_ANSWER = {"nccl_version": "2.30.7", "timestamp": "2026-11-30 10:50:00", "communicators": [_COMMUNICATOR]}
RAS = (
    json.dumps(_ANSWER, indent=2).encode(),
    json.dumps(_ANSWER, indent=1).encode() * 2,
    b'{"event": "PEER_DEAD", "timestamp": "2026-11-30 10:50:00", "peer": {"host": "192.0.2.1", "pid": 100}}\n',
    b"""NCCL version 2.27.3 compiled with CUDA 12.9
Job summary
===========
  Nodes  Processes         GPUs  Processes     GPUs
Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         1         2         2   RUNNING      OK
    1         1         2         1         2         2   RUNNING  INCOMPLETE

Errors
======

DEAD
  Process 4100 on node 192.0.2.2 managing GPU 0

#1-0 (5c9b1a) INCOMPLETE
  Missing communicator data from 1 job process
    The missing rank: 1

Warnings
========

#0-0 (4f2c11) MISMATCH
  Communicator ranks have different AllReduce operation counts
    1 ranks have launched up to operation 7
    1 ranks have launched up to operation 6
      Rank 1 -- GPU 0 managed by process 4100 on node 192.0.2.2

[2026-11-30 10:50:00] PEER_DEAD: Process 4100 on node 192.0.2.2 managing GPU 0
n1:4100 NCCL DIAG everything
""",
)

_ENTRY = {
    "record_id": 0, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": 4, "p2p_seq_id": 0,
    "op_id": 4, "profiling_name": "nccl:all_reduce", "time_created_ns": 1796000000000000000,
    "input_sizes": [[2048, 1, 5120]], "input_dtypes": ["BFloat16"], "output_sizes": [[2048]], "output_dtypes": ["Int"],
    "state": "scheduled", "time_discovered_started_ns": None, "retired": False, "timeout_ms": 180000, "is_p2p": False,
}  # fmt: skip
_SEND = _ENTRY | {"profiling_name": "nccl:send 0->1", "is_p2p": True, "p2p_seq_id": 3, "state": "completed"}
_DUMP = {
    "version": "2.9", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
    "pg_status": {"0": {"last_enqueued_collective": 9, "last_started_collective": -1, "last_completed_collective": 8}},
    "entries": [_ENTRY, _SEND],
}  # fmt: skip
PICKLES = tuple(pickle.dumps(_DUMP, protocol) for protocol in (2, 4, 5))
FLIGHT = (*PICKLES, json.dumps(_DUMP).encode(), pickle.dumps([_ENTRY], 2))

JOB_LOG = (
    b"n1:4100:4100 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0xae94 - "
    b"Init COMPLETE\n"
    b"[rank1]:[E321 02:07:08.414640780 ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught collective operation timeout:"
    b" WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, NumelIn=466119168, NumelOut=466119168, Timeout(ms)=600000) ran for "
    b"600067 milliseconds before timing out.\n"
    b"[rank0]:[E321 02:07:08.9 ProcessGroupNCCL.cpp:2] [PG ID 0 PG GUID 0(default_pg) Rank 0] Exception (either an "
    b"error or timeout) detected by watchdog at work: 1580, last enqueued NCCL work: 1581, last completed NCCL work: "
    b"1579.\n"
    b"n1:4100:4201 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB: Got completion from peer 192.0.2.2<4000> with status="
    b"IBV_WC_RETRY_EXC_ERR(12) opcode=0 len=0 vendor err 129 localGid ::1 hca mlx5_0\n"
)
KERNEL_LOG = (
    b"[171167.621162] NVRM: Xid (PCI:0009:01:00): 79, pid=4242, name=torchrun, GPU has fallen off the bus.\n"
    b"[171168.109293] NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 15 (0x0215e5c6 0x00000000)\n"
    b"Nov 30 10:00:00 n1 kernel: nvidia-nvswitch3: SXid (PCI:0000:07:00.0): 12028, Non-fatal, Link 32 egress\n"
    b"2026-11-30T10:00:01,285060+00:00 n1 kernel: pcieport 0000:00:03.1: AER: Multiple Corrected error message received"
    b" from 0000:01:00.0\n"
    b"mlx5_core 0000:5c:00.0: Port module event[error]: module 0, Cable error, High Temperature\n"
    b"Memory cgroup out of memory: Killed process 9 (python), UID 0, total-vm:1kB\n",
    b'{"MESSAGE":"NVRM: Xid (PCI:0009:01:00): 48","__REALTIME_TIMESTAMP":"1796000000000000","_HOSTNAME":"n1"}\n'
    b'{"log":"[ 12.000001] NVRM: The NVIDIA GPU 0000:01:00.0\\n","stream":"stdout","time":"2026-11-30T10:00:00.5Z"}\n'
    b"2026-11-30T10:00:00.123456789Z stdout F [Mon Nov 30 10:00:00 2026] NVRM: fallen off the bus and is not responding"
    b'\n<4>[   12.000001] time=2026-11-30T10:00:00Z level=info msg="NVRM: GPU at PCI:0000:01:00: GPU-12ab-cd"\n',
    KMSG,
)
NCCL_TESTS = (
    b"""# nccl-tests version 2.19.6 nccl-headers=23007 nccl-library=23007
# Collective test starting: all_reduce_perf
# Using devices
#  Rank  0 Group  0 Pid   4100 on    node-01 device  0 [0000:1a:00] NVIDIA H100 80GB HBM3
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
     8388608       2097152     float     sum      -1   141.52   59.28  103.73       0   143.10   58.62  102.59     N/A
# Out of bounds values : 3 FAILED
# Avg bus bandwidth    : 137.549
""",
    b"""# nThread 1 nGpus 8 minBytes 1 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 validation: 0
#   Rank  0 Pid 112372 on localhost device  0 [0x00] A100-SXM4-40GB
#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error
  8589934592     268435456   float    33646  255.31  223.39    N/A    32669  262.94  230.07  2e-07
""",
)
COMMA = (
    b'[{"name":"AllReduce","cat":"COLL","ph":"X","ts":12.5,"dur":3.5,"pid":7,"child_dur":812.5,"comm_hash":"0xae94",'
    b'"rank":3,"seq_num":51,"args":{"size":16777216},"proxyops":[{}]},{"cat":"PROXY"}]',
)
STEP_LINES = (
    b'{"step":7,"rank":3,"step_us":812345.5,"data_us":12,"compute_us":700000,"comm_us":100000,"wait_us":345,"job":"j",'
    b'"node":"n1","gpu":"GPU-a","ts_ms":1796000000000,"phase":"train","work":4096,"shape_seq":2048,"flops":1e15}\n'
    b'{"step":8,"rank":3,"step_us":-1,"run_idx":2,"tokens":null,"allocator_stall_us":9}\n',
)
STEP_TABLES = (
    b"run_idx,step,rank,step_us,data_us,compute_us,comm_us,wait_us,work\n"
    + b"".join(b"0,%d,%d,%d,12,700000,100000,5,64\n" % (s, r, 812345 + 7 * s) for s in range(12) for r in range(3)),
    b"".join(b'{"step":%d,"rank":%d,"step_us":%d}\n' % (s, r, 900 + r) for s in range(12) for r in range(2)),
)
PIPELINE = (
    b"dp_rank,stage,rank,step,optype,start_ts,duration\n"
    + b"".join(
        b"0,%d,%d,%d,%s,%d,%d\n" % (stage, stage, step, kind, 100 * step + 20 * stage, 15)
        for step in range(4)
        for stage in range(2)
        for kind in (b"forward", b"backward")
    ),
)
BATCH_TIMES = (
    b"worker,time,batch_time_norm\n"
    + b"".join(b"%d,%d.5,1.0%d\n" % (worker, second, second % 7) for second in range(20) for worker in range(3)),
)

HOST = {
    "stat": b"cpu  10 1 4 80 5 0 0 2 3 0\ncpu0 1 2 3 4\nprocs_running 3\nprocs_blocked 2\n",
    "loadavg": b"1.77 0.83 0.39 8/251 9186\n",
    "meminfo": b"MemTotal:  2048 kB\nMemAvailable: 1024 kB\nSwapTotal: 8 kB\nSwapFree: 4 kB\nHugePages_Total: 0\n",
    "vmstat": b"nr_free_pages 1\noom_kill 4\n",
    "diskstats": b"259 0 nvme0n1 1 0 8 1 2 0 16 2 0 340 3\n 7 0 loop0 1 0 8 1 2 0 16 2 0 9 3\n",
    "pressure/cpu": b"some avg10=30.65 avg60=18.14 avg300=6.99 total=36158877\n",
    "pressure/io": b"some avg10=0.00 avg60=0 avg300=0 total=1\nfull avg10=1.00 avg60=0 avg300=0 total=1\n",
}
HWMON = {
    "name": b"k10temp\n", "temp1_input": b"61500\n", "temp1_crit": b"95000\n", "temp1_max": b"90000\n",
    "temp1_alarm": b"0\n", "fan2_input": b"4200\n", "fan2_alarm": b"1\n",
}  # fmt: skip
PORT = {
    "ports/1/state": b"4: ACTIVE\n", "ports/1/phys_state": b"5: LinkUp\n", "ports/1/rate": b"400 Gb/sec (4X NDR)\n",
    "ports/1/link_layer": b"InfiniBand\n", "ports/1/counters/port_xmit_data": b"9223372036854775807\n",
    "ports/1/counters/port_xmit_wait": b"0\n", "ports/1/counters/link_downed": b"2\n",
    "ports/1/counters/symbol_error": b"65535\n", "ports/1/hw_counters/out_of_sequence": b"7\n",
    "board_id": b"MT_0000000838\n", "device/uevent": b"DRIVER=mlx5_core\nPCI_SLOT_NAME=0000:5c:00.0\n",
}  # fmt: skip
PROCESS = {
    "stat": b"7 (a) D b) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 8812 0\n",
    "environ": b"RANK=3\0LOCAL_RANK=3\0WORLD_SIZE=8\0MASTER_ADDR=n1\0MASTER_PORT=29500\0SLURM_JOB_ID=71\0"
    b"CUDA_VISIBLE_DEVICES=0,1,GPU-ab\0NVIDIA_VISIBLE_DEVICES=all\0SLURM_STEP_GPUS=0,1\0",
    "cgroup": b"0::/kubepods.slice/kubepods-pod0f6b1c1e_1111_2222_3333_444455556666.slice/cri-1.scope\n"
    b"1:cpu:/slurm/uid_1000/job_71/step_0\n",
    "status": b"Name:\tpython\nNSpid:\t7\t1\n",
}
MAPPING = (b"71\n", b"71\n72\n", b"\n")
ENVIRONMENT = (
    b"LOCKSTEP_BROKER=kafka-1:9092,kafka-2:9092\nLOCKSTEP_INTERVAL_S=1\nLOCKSTEP_SPOOL_MIB=512\nLOCKSTEP_NODE=n1\n"
    b"LOCKSTEP_DCGM_URL=http://localhost:9400/metrics\nLOCKSTEP_PROMETHEUS_PORT=9464\nNOTIFY_SOCKET=@word\n",
)
TARGETS = (
    b'rack = "r03"\nuser = "monitor"\npassword_env = "WORD"\ninsecure = true\ntimeout_s = 5\n'
    b'[[bmc]]\nname = "r03-t07"\nurl = "https://10.3.7.1"\nnode = "r03-t07"\n[[bmc]]\nname = "cdu"\nurl = "http://10.3.0.200"\n'
    b'fingerprint = "sha256:' + b"ab" * 32 + b'"\n',
)
HTTP = (
    b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n{"Reading": 1}',
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b'e;x=1\r\n{"Reading": 1}\r\n0\r\n\r\n',
    b"HTTP/1.1 503 Busy\r\nRetry-After: 9\r\nConnection: close\r\n\r\n<html>",
    b"HTTP/1.1 307 Elsewhere\r\nLocation: /redfish/v1/\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 34\r\n\r\n"
    + gzip.compress(b'{"Reading": 1}', mtime=0),
)

SEPARATOR = b"\n~~~\n"
"""Between the contents of several files in one input."""


def joined(files: dict[str, bytes]) -> bytes:
    """One input of several files' contents, in the order of their names."""
    return SEPARATOR.join(files.values())


def parted(files: dict[str, bytes], data: bytes) -> dict[str, bytes]:
    """The contents by name again; what an input lacks is empty, and what is too much goes."""
    pieces = data.split(SEPARATOR)
    return {name: pieces[i] if i < len(pieces) else b"" for i, name in enumerate(files)}


def packed(samples: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The first one as gzip too."""
    return (*samples, gzip.compress(samples[0], mtime=0))
