"""The tables of XIDs, SXIDs and NVLink 5 errors, against NVIDIA's own where those are at hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.causes import CAUSES
from schemas.nvlink5 import UNITS, outcome, unit
from schemas.sxid import SXIDS, sxid_severity
from schemas.xid import ACTIONS, RECOVERY_ACTIONS, XIDS, in_words, xid

REAL = Path(__file__).parents[2] / ".." / "shared" / "data" / "gpu" / "xid"


def real(name: str) -> Any:
    if not (REAL / name).exists():
        pytest.skip(f"NVIDIA's table is not beside the project (shared/data/gpu/xid/{name})")
    return json.loads((REAL / name).read_text())


def test_every_code_has_the_actions_of_the_catalogue() -> None:
    catalogue = real("xid_catalog.json")["cat"]
    assert {int(code) for code in catalogue} == set(XIDS)
    for code, (_, _, action, then) in catalogue.items():
        ours = XIDS[int(code)]
        if action:
            assert ours.action == action, code
        if then and not then.startswith(("Solo", "N/A")):
            assert ours.then == then, code


def test_severity_follows_the_action() -> None:
    for code, facts in XIDS.items():
        if facts.action in ("RESET_GPU", "RESTART_BM", "CHECK_MECHANICALS", "WORKFLOW_XID_48", "WORKFLOW_NVLINK_ERR"):
            assert facts.severity == "critical", code
        if facts.action == "IGNORE":
            assert facts.severity != "critical", code


def test_every_action_has_words_and_every_cause_is_known() -> None:
    actions = {a for facts in XIDS.values() for a in (facts.action, facts.then)}
    actions |= {a for a, _ in RECOVERY_ACTIONS.values()} | {facts.action for facts in SXIDS.values()}
    actions |= {o.action for u in UNITS for o in u.outcomes.values()} | {
        o.then for u in UNITS for o in u.outcomes.values() if "/" not in o.then
    }
    assert {action.partition(" (")[0] for action in actions} <= set(ACTIONS)
    assert {facts.cause for facts in XIDS.values()} <= set(CAUSES)
    assert in_words("REPORT_ISSUE (if seen >1 per day)") == ACTIONS["REPORT_ISSUE"]
    assert xid(100_000).severity == "warning"


def test_every_nvlink5_rule_is_in_the_table() -> None:
    rules = real("nvlink5_rules_144_150.json")
    for rule in rules:
        found = unit(int(rule["Xid"]), rule["Unit"])
        assert found is not None, rule
        fatal = "Non" not in rule["Severity"]
        for pattern in (rule["IntrinfoPatternV1"], rule["IntrinfoPatternV2"]):
            word = int(pattern.replace("-", "0"), 2)
            got = outcome(found, word, int(rule["ErrorStatus"], 16), fatal)
            assert got is not None, rule
            assert (got.fatal, got.action, got.then) == (fatal, rule["Resolution"], rule["Investigatory"]), rule
            assert got.side == rule["HwSw"], rule
    assert sum(len(u.outcomes) for u in UNITS) == len(rules)


def test_every_switch_error_has_the_class_of_the_guide() -> None:
    catalogue = real("sxid_catalog.json")
    assert {int(code) for code in catalogue} == set(SXIDS)
    for code, entry in catalogue.items():
        always = entry["af"] in ("true", "defaultAlwaysFatalErr")
        potential = entry["pf"] in ("true", "defaultPotentialFatalErr")
        expected = "fatal" if always else "potential" if potential else "nonfatal"
        assert SXIDS[int(code)].kind == expected, code


def test_the_word_of_a_switch_error_counts_more_than_its_class() -> None:
    assert sxid_severity(20034, False) == "warning"
    assert sxid_severity(20034, True) == "critical"
    assert sxid_severity(11012, None) == "info"
    assert sxid_severity(99999, None) == "warning"
