"""A line of a log file without what a logger put before it: time, host, facility, container or JSON wrapping.

Known are dmesg (seconds since boot, `-T`, `-x`, `--time-format iso`), /dev/kmsg records, syslog (RFC 3164 and 5424),
journald (short, ISO and JSON export), container run-times (Docker's JSON, the CRI's text), fabric manager, and JSON
objects with the message in a usual field. Prefixes may be nested: a container's line may hold a dmesg line.

Times without a zone are taken as UTC; times without a year as the last such day up to `until_ms`.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, NamedTuple

import msgspec

from collectors.digits import whole

DAY_MS = 86_400_000


class LogLine(NamedTuple):
    """`text` is the message. `ts_ms` (UTC) and `uptime_s` (since boot) are None, `host` is "", where nothing says."""

    text: str
    ts_ms: int | None = None
    uptime_s: float | None = None
    host: str = ""


_MONTHS = {
    name: number
    for number, name in enumerate(
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], 1
    )
}
_MONTH = "(" + "|".join(_MONTHS) + ")"
_WEEKDAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_CLOCK = r"(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"
_ISO = rf"(\d{{4}})-(\d\d)-(\d\d)[T ]{_CLOCK}\s?(Z|[+-]\d\d:?\d\d)?"

_ISO_WHOLE = re.compile(_ISO + r"\s*")
_CRI = re.compile(rf"(?:(\S+) )?{_ISO} (?:stdout|stderr) [FP] ")
_KMSG = re.compile(r"\d{1,4},\d+,(\d{1,18}),[-c+](?:,[^;]*)?;")
_PRIORITY = re.compile(r"<\d{1,3}>(?:1 (?=\d{4}-|-))?")
_FACILITY = re.compile(r"\w+\s*:\s*(?:emerg|alert|crit|err|warn|notice|info|debug)\s*: ?")
_STAMP = re.compile(rf"(?:{_WEEKDAY} )?\[?{_ISO}\]?,?\s+(?:UTC\s+)?")
_LOGFMT = re.compile(rf"(?:time|ts)=\"?{_ISO}\"?\s.*?\bmsg=\"((?:[^\"\\]|\\.)*)\"")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_UPTIME = re.compile(r"\[\s*(\d{1,10}\.\d{1,9})\](?:\[\s*[TC]\d+\])?\s?")
_CALENDAR = re.compile(rf"\[{_WEEKDAY} {_MONTH}\s+(\d{{1,2}}) {_CLOCK} (\d{{4}})\]\s?")
_MANAGER = re.compile(rf"\[{_MONTH}\s+(\d{{1,2}}) (\d{{4}}) {_CLOCK}\]\s?")
_BSD = re.compile(rf"(?:{_WEEKDAY} )?{_MONTH}\s+(\d{{1,2}})(?: (\d{{4}}))? {_CLOCK} ")
_HOST = re.compile(
    r"([\w.-]+) (?:kernel|[\w./-]+) (?:\d+|-) \S+ (?:-|\[.*?\]) |([\w.-]+) (?:kernel|systemd|[\w./-]+\[\d+\]):? "
)
_TAG = re.compile(r"kernel: ?")

_MESSAGE_KEYS = ("MESSAGE", "message", "log", "msg", "text", "line", "content", "body")
_TIME_KEYS = ("__REALTIME_TIMESTAMP", "_SOURCE_REALTIME_TIMESTAMP", "time", "timestamp", "@timestamp", "ts", "date")
_HOST_KEYS = ("_HOSTNAME", "hostname", "host", "HOST", "node", "nodename", "node_name", "source_host")


def parse_log_line(line: str, until_ms: int | None = None) -> LogLine:
    """`line` without its prefixes.

    >>> parse_log_line("[171167.621162] NVRM: Xid (PCI:0009:01:00): 79")
    LogLine(text='NVRM: Xid (PCI:0009:01:00): 79', ts_ms=None, uptime_s=171167.621162, host='')
    >>> parse_log_line("2025-01-21T04:41:44,285060+00:00 n7 kernel: mce: ...").host
    'n7'
    """
    known = LogLine(COLOURS.sub("", line.rstrip("\r\n")))
    if line.lstrip().startswith("{"):
        known = unwrapped(known)
    for _ in range(8):
        for look in _LOOKS:
            less = look(known, until_ms)
            if less is not None:
                known = less
                break
        else:
            break
    return known


def unwrapped(known: LogLine) -> LogLine:
    """A JSON object's message, time and host; the line as it is where it is no such object."""
    try:
        row = msgspec.json.decode(known.text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return known
    if not isinstance(row, dict):
        return known
    text = next((t for key in _MESSAGE_KEYS if (t := _message(row.get(key))) is not None), None)
    if text is None:
        return known
    moment = next((ms for key in _TIME_KEYS if (ms := _moment(row.get(key))) is not None), None)
    monotonic = row.get("_SOURCE_MONOTONIC_TIMESTAMP")
    uptime_s = int(monotonic) / 1e6 if isinstance(monotonic, str) and whole(monotonic) is not None else None
    named = row["host"].get("name") if isinstance(row.get("host"), dict) else None
    places = (row, row.get("kubernetes"))
    hosts = (named, *(place.get(key) for place in places if isinstance(place, dict) for key in _HOST_KEYS))
    host = next((h for h in hosts if isinstance(h, str) and h), "")
    return LogLine(text.rstrip("\r\n"), moment, uptime_s, host)


def _message(value: Any) -> str | None:
    """A message as text; journald gives bytes that are no UTF-8 as a list of numbers."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(v, int) and 0 <= v < 256 for v in value):
        return bytes(value).decode("utf-8", "replace")
    return None


def _moment(value: Any) -> int | None:
    """A time as ISO text, or as seconds, milli-, micro- or nanoseconds since 1970, told apart by their size."""
    if isinstance(value, str):
        match = _ISO_WHOLE.fullmatch(value.strip())
        if match is not None:
            return _iso_ms(match.groups())
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 1e8:
        return None
    for unit in (1e-3, 1.0, 1e3, 1e6):
        if value / unit < 4.1e12:
            return int(value / unit)
    return None


def _ms(year: int, month: int, day: int, clock: tuple[str | Any, ...], zone: str | None = None) -> int | None:
    hour, minute, second, fraction = clock
    micros = int((fraction or "0").ljust(6, "0")[:6])
    offset = timedelta(0)
    if zone and zone != "Z":
        offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:])) * (-1 if zone[0] == "-" else 1)
    try:
        moment = datetime(year, month, day, int(hour), int(minute), min(int(second), 59), micros, timezone(offset))
        return max(0, round(moment.timestamp() * 1000))
    except (ValueError, OverflowError):
        return None


def _iso_ms(groups: tuple[str | Any, ...]) -> int | None:
    year, month, day, *clock, zone = groups
    return _ms(int(year), int(month), int(day), tuple(clock), zone)


def _cri(line: LogLine, until_ms: int | None) -> LogLine | None:
    match = _CRI.match(line.text)
    if match is None:
        return None
    return line._replace(text=line.text[match.end() :], ts_ms=_iso_ms(match.groups()[1:]))


def _kmsg(line: LogLine, until_ms: int | None) -> LogLine | None:
    match = _KMSG.match(line.text)
    return None if match is None else line._replace(text=line.text[match.end() :], uptime_s=int(match[1]) / 1e6)


def _dropped(pattern: re.Pattern[str]) -> Callable[[LogLine, int | None], LogLine | None]:
    def look(line: LogLine, until_ms: int | None) -> LogLine | None:
        match = pattern.match(line.text)
        return None if match is None else line._replace(text=line.text[match.end() :])

    return look


def _stamp(line: LogLine, until_ms: int | None) -> LogLine | None:
    match = _STAMP.match(line.text)
    if match is None:
        return None
    moment = _iso_ms(match.groups())
    return line._replace(text=line.text[match.end() :], ts_ms=line.ts_ms if moment is None else moment)


def _logfmt(line: LogLine, until_ms: int | None) -> LogLine | None:
    match = _LOGFMT.match(line.text)
    if match is None:
        return None
    *moment, text = match.groups()
    return line._replace(text=text.replace('\\"', '"'), ts_ms=_iso_ms(tuple(moment)))


def _uptime(line: LogLine, until_ms: int | None) -> LogLine | None:
    match = _UPTIME.match(line.text)
    return None if match is None else line._replace(text=line.text[match.end() :], uptime_s=float(match[1]))


def _calendar(line: LogLine, until_ms: int | None) -> LogLine | None:
    if (match := _CALENDAR.match(line.text)) is not None:
        month, day, *clock, year = match.groups()
    elif (match := _MANAGER.match(line.text)) is not None:
        month, day, year, *clock = match.groups()
    else:
        return None
    return line._replace(text=line.text[match.end() :], ts_ms=_ms(int(year), _MONTHS[month], int(day), tuple(clock)))


def _bsd(line: LogLine, until_ms: int | None) -> LogLine | None:
    match = _BSD.match(line.text)
    if match is None:
        return None
    month, day, year, *clock = match.groups()
    moment: int | None = None
    if year is not None:
        moment = _ms(int(year), _MONTHS[month], int(day), tuple(clock))
    elif until_ms is not None:
        this = datetime.fromtimestamp(until_ms / 1000, UTC).year
        moments = (_ms(y, _MONTHS[month], int(day), tuple(clock)) for y in (this + 1, this, this - 1))
        # Clocks and zones differ by less than a day.
        moment = next((ms for ms in moments if ms is not None and ms <= until_ms + DAY_MS), None)
    return line._replace(text=line.text[match.end() :], ts_ms=line.ts_ms if moment is None else moment)


def _host(line: LogLine, until_ms: int | None) -> LogLine | None:
    match = _HOST.match(line.text)
    if match is None or line.host:
        return None
    return line._replace(text=line.text[match.end() :], host=match[1] or match[2])


_LOOKS = (
    _cri,
    _kmsg,
    _dropped(_PRIORITY),
    _dropped(_FACILITY),
    _stamp,
    _logfmt,
    _uptime,
    _calendar,
    _bsd,
    _dropped(_TAG),
    _host,
)
