"""Tables follow from the record classes and the catalogue."""

import pytest

from schemas import RECORDS, Record
from schemas.examples import EXAMPLES
from schemas.metrics import METRICS, SECTIONS, names
from schemas.record import NodeRecord
from storage import ddl
from storage.columns import columns
from storage.comments import TABLE_NOTES
from storage.readings import Readings
from storage.tables import BY_RECORD, TABLES, Table


def test_every_record_class_has_a_table() -> None:
    assert set(BY_RECORD) == set(RECORDS)


def test_every_metric_of_the_catalogue_has_a_column() -> None:
    for section in SECTIONS:
        tables = [t for t in TABLES.values() if isinstance(t.shape, Readings) and t.shape.section == section]
        assert [c.name for t in tables for c in t.columns if c.part == "reading"] == list(names(section))


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda t: t.name)
def test_every_table_and_column_is_commented(table: Table) -> None:
    assert TABLE_NOTES[table.name]
    for column in table.columns:
        assert len(ddl.column_comment(table, column)) > 3


def test_a_readings_comment_has_unit_kind_and_source() -> None:
    table = TABLES["gpu_samples"]
    column = next(c for c in table.columns if c.name == "memory_temperature_c")
    said = ddl.column_comment(table, column)
    assert said == "gauge, degree Celsius; NVML field 82; cards with HBM; NaN where missing"


def test_every_metric_name_tells_its_unit_or_has_none() -> None:
    without = {m.name for m in METRICS if ", " not in ddl.comment("gpu_samples", m.name, m).split(";")[0]}
    assert all(m.kind in ("flag", "code", "bits") or m.name.startswith("load_") for m in METRICS if m.name in without)


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda t: t.name)
def test_the_sort_key_ends_with_the_identity_of_the_row(table: Table) -> None:
    own = {"place"} if any(c.name == "place" for c in table.columns) else set()
    if issubclass(table.record, NodeRecord) and "origin" not in table.key:
        assert [name for name in table.key if name not in own][-2:] == ["run_id", "seq"]
        assert {"cluster", "node", *own} <= set(table.key)
    example = next(e for e in EXAMPLES if type(e) is table.record)
    row = first_row(table, example)
    if row:
        assert {str(part) for part in example.identity} <= {str(row[name]) for name in table.key} | {""}


def first_row(table: Table, record: Record) -> dict[str, object]:
    made = columns(table, [record])
    return {c.name: values.tolist()[0] for c, values in zip(table.columns, made.data, strict=True)} if made.rows else {}


def test_text_from_outside_is_quoted() -> None:
    assert ddl.literal("it's a \\") == "'it\\'s a \\\\'"
