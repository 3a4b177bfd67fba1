"""Numbers as tools print them, and every way of printing that there is none."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.gpu.printed import blank_or, printed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("401.22 W", 401.22),
        ("  97 %", 97.0),
        ("0", 0.0),
        ("-3 C", -3.0),
        ("91.4 F", 33.0),
        ("412500 mW", 412.5),
        ("80 GiB", 81920.0),
        ("1.98 GHz", 1980.0),
        ("1200 KB/s", 1.2e6),
        ("16x", 16.0),
        ("0x0000000000000084", 132.0),
        ("1.500000e-254", 1.5e-254),
        ("[N/A]", "unsupported"),
        ("N/A", "unsupported"),
        ("[Not Supported]", "unsupported"),
        ("Requested functionality has been deprecated", "unsupported"),
        ("<<<NOT_SUPPORTED>>>", "unsupported"),
        ("<<<NULL>>>", "blank"),
        ("<<<NOT_PERM>>>", "no_permission"),
        ("[Insufficient Permissions]", "no_permission"),
        ("ERR!", "unknown_error"),
        ("[Unknown Error]", "unknown_error"),
        ("[GPU is lost]", "lost"),
        ("[GPU requires reset]", "reset_required"),
        ("", "blank"),
        ("NaN", "blank"),
        ("+Inf", "blank"),
        ("-inf", "blank"),
        ("9223372036854775794", "blank"),
        ("9.223372036854776e+18", "blank"),
        ("18446744073709551615", "blank"),
        ("1.8446744073709552e+19", "blank"),
        ("140737488355330.0", "blank"),
        ("2147483632", "blank"),
        ("2147483647", "blank"),
        ("4294967295", "blank"),
        ("2147483631", 2147483631.0),
        ("2147483648", 2147483648.0),
        ("140737488355400", 140737488355400.0),
        ("off", "unreadable"),
        ("12 apples", "unreadable"),
        ("1.2.3", "unreadable"),
    ],
)
def test_a_printed_value_is_a_number_or_a_reason(text: str, expected: float | str) -> None:
    assert printed(text) == (expected if isinstance(expected, str) else pytest.approx(expected))


@given(st.text(max_size=40))
def test_any_text_is_a_finite_number_or_a_reason(text: str) -> None:
    value = printed(text)
    assert isinstance(value, str) or math.isfinite(value)


@given(st.floats(0, 2e9, allow_nan=False))
def test_what_is_below_every_blank_is_kept(value: float) -> None:
    assert blank_or(value) == value
