"""Each cause has a runbook page with its parts, and every link in them leads somewhere."""

import re
from pathlib import Path

import pytest

from schemas.causes import CAUSES

RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks"
PARTS = ["Confirm by hand", "What to do", "When it is a false alarm", "Who acts"]
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("cause", CAUSES)
def test_a_cause_has_a_page_with_all_its_parts(cause: str) -> None:
    text = (RUNBOOKS / f"{cause}.md").read_text("utf-8")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == PARTS
    assert f"Cause `{cause}`: {CAUSES[cause].words}." in text
    commands = text.split("```sh\n")[1].split("```")[0].strip().splitlines()
    assert commands, "how to confirm it by hand"
    team = CAUSES[cause].team.removeprefix("job ")
    assert team in text.split("## Who acts")[1].lower()


@pytest.mark.parametrize("page", sorted(RUNBOOKS.glob("*.md")), ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text("utf-8")):
        assert "://" in target or (page.parent / target).exists(), f"{page.name}: {target}"


def test_there_is_no_page_of_another_cause_and_the_list_has_all() -> None:
    assert {page.stem for page in RUNBOOKS.glob("*.md")} == {*CAUSES, "README"}
    assert set(LINK.findall((RUNBOOKS / "README.md").read_text("utf-8"))) == {f"{cause}.md" for cause in CAUSES}
