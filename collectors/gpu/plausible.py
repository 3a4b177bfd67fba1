"""What no single range can tell: values that contradict each other."""

from collectors.rates import Value

LIMIT_FACTOR = 1.5
"""An average power further above the limit is a counter that jumped: GPUs exceed their limit by some per cent, and
for milliseconds."""


def drop_impossible(row: dict[str, Value]) -> None:
    """Take out of a GPU's row what its other values show to be impossible, as `out_of_range`."""
    average, limit = row.get("power_average_w"), row.get("power_limit_w")
    if isinstance(average, float) and isinstance(limit, int | float) and average > LIMIT_FACTOR * limit:
        row["power_average_w"] = "out_of_range"
