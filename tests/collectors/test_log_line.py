"""Lines of log files without their loggers' prefixes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.kernel.log_kind import looks_like
from collectors.kernel.log_line import LogLine, parse_log_line

DECEMBER_2024_MS = 1_733_400_000_000
TEXT = "NVRM: Xid (PCI:0000:04:00): 79"


@pytest.mark.parametrize(
    ("line", "ts_ms", "uptime_s", "host"),
    [
        (TEXT, None, None, ""),
        (f"[   12.500000] {TEXT}", None, 12.5, ""),
        (f"[   12.500000][ T1234] {TEXT}", None, 12.5, ""),
        (f"<6>[   12.500000] {TEXT}", None, 12.5, ""),
        (f"\x1b[32m[   12.500000] \x1b[0m\x1b[33m{TEXT}\x1b[0m", None, 12.5, ""),
        (f"[Sun Dec  1 14:54:40 2024] n7 kernel: {TEXT}", 1_733_064_880_000, None, "n7"),
        (f"kern  :warn  : 2025-01-21T04:41:44,285060+00:00 {TEXT}", 1_737_434_504_285, None, ""),
        (f"Dec  1 14:54:40 n7 kernel: [171167.62] {TEXT}", 1_733_064_880_000, 171167.62, "n7"),
        (f"Dec  5 23:54:40 n7 kernel: {TEXT}", 1_733_442_880_000, None, "n7"),
        (f"Dec 31 14:54:40 n7 kernel: {TEXT}", 1_704_034_480_000, None, "n7"),
        (f"Thu 2024-10-10 03:06:53 UTC n7 kernel: {TEXT}", 1_728_529_613_000, None, "n7"),
        (f"2024-10-10T03:06:53+0200 n7 kernel: {TEXT}", 1_728_522_413_000, None, "n7"),
        (f"4,5001,171167621162,-;{TEXT}", None, 171167.621162, ""),
        (f"6,5001,171167621162,-,caller=T12;{TEXT}", None, 171167.621162, ""),
        (f"<4>1 2024-10-10T03:06:53.123Z n7 kernel 7 - - {TEXT}", 1_728_529_613_123, None, "n7"),
        (f"2024-10-10T03:06:53.123456789Z stdout F {TEXT}", 1_728_529_613_123, None, ""),
        (f'time="2024-10-10T03:06:53Z" level=info msg="{TEXT}"', 1_728_529_613_000, None, ""),
        (f"Dec  1 14:54:40 n7 monitor[123]: {TEXT}", 1_733_064_880_000, None, "n7"),
    ],
)
def test_prefixes(line: str, ts_ms: int | None, uptime_s: float | None, host: str) -> None:
    assert parse_log_line(line, DECEMBER_2024_MS) == LogLine(TEXT, ts_ms, uptime_s, host)


@pytest.mark.parametrize(
    ("row", "ts_ms", "host"),
    [
        ({"MESSAGE": TEXT, "__REALTIME_TIMESTAMP": "1728529613123456", "_HOSTNAME": "n7"}, 1_728_529_613_123, "n7"),
        ({"MESSAGE": list(TEXT.encode())}, None, ""),
        ({"log": TEXT + "\n", "stream": "stdout", "time": "2024-10-10T03:06:53.5Z"}, 1_728_529_613_500, ""),
        ({"message": TEXT, "@timestamp": "2024-10-10T03:06:53Z", "host": {"name": "n7"}}, 1_728_529_613_000, "n7"),
        ({"msg": TEXT, "ts": 1728529613.5, "node": "n7", "name": "monitor"}, 1_728_529_613_500, "n7"),
        ({"text": TEXT, "timestamp": 1728529613500000000}, 1_728_529_613_500, ""),
        ({"log": TEXT, "kubernetes": {"host": "n7", "pod_name": "p"}}, None, "n7"),
        ({"line": f"[Sun Dec  1 14:54:40 2024] {TEXT}"}, 1_733_064_880_000, ""),
    ],
)
def test_json_objects(row: dict[str, object], ts_ms: int | None, host: str) -> None:
    assert parse_log_line(json.dumps(row), DECEMBER_2024_MS) == LogLine(TEXT, ts_ms, None, host)


def test_a_year_that_is_not_told_is_not_guessed_without_a_reference() -> None:
    assert parse_log_line("Dec  1 14:54:40 n7 kernel: x").ts_ms is None


@pytest.mark.parametrize(
    "line", ["", "{", '{"a": 1}', "[]", "2024-13-45T99:99:99Z x", "[9999999999999999.1] x", "<999>"]
)
def test_odd_lines_are_left_as_they_are_or_stripped(line: str) -> None:
    assert parse_log_line(line).ts_ms is None


@given(st.text())
def test_any_text_whatever(line: str) -> None:
    parse_log_line(line, DECEMBER_2024_MS)
    looks_like(line.encode("utf-8", "replace"))


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (b"[    0.000000] Linux version 6.8.0\n", True),
        (b"Dec  1 14:54:40 n7 systemd[1]: Started.\nDec  1 14:54:41 n7 kernel: usb 1-1: new\n", True),
        (b"mlx5_cmd_out_err: ACCESS_REG failed\n", True),
        (b"[Jul 09 2024 18:14:07] [INFO] [tid 12727] multicast group 0 is freed.\n", True),
        (b"step,rank,step_us\n0,0,100\n", False),
        (b"n7:123:456 [0] NCCL WARN Timeout waiting for kernel: x\n", False),
        (b"", False),
    ],
)
def test_what_is_a_kernel_log(start: bytes, expected: bool) -> None:
    assert looks_like(start) is expected
