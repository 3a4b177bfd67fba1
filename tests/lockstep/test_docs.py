"""The pages: nothing leads nowhere, every page is found, every secret is named."""

import re
from pathlib import Path

import msgspec
import pytest

from alerts.settings import AlertsSettings
from collectors.agent.settings import AgentSettings
from lockstep.options import SECRET
from runtime.settings import PREFIX, ClickHouse

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])


def _links(page: Path) -> list[str]:
    prose = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", prose) if "://" not in link]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_page_and_its_heading(page: Path) -> None:
    for link in _links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name) if name else page
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text("utf-8"), flags=re.MULTILINE)
            assert anchor in [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings], link


def test_every_page_is_in_the_list_of_what_one_may_want_to_do() -> None:
    folder = ROOT / "docs"
    listed = {(folder / link).resolve() for link in _links(folder / "README.md")}
    pages = {page for page in (*folder.glob("*.md"), *folder.glob("collectors/*.md"))} - {folder / "README.md"}
    assert {page.name for page in pages - listed} == set()


def test_every_secret_is_named_on_the_page_for_a_fleet() -> None:
    page = (ROOT / "docs/run-on-a-fleet.md").read_text("utf-8")
    fields = {
        field.name for cls in (AgentSettings, ClickHouse, AlertsSettings) for field in msgspec.structs.fields(cls)
    }
    secret = {name.upper() for name in fields if any(word in name for word in SECRET)}
    teams = {name for name in secret if name.startswith("PAGERDUTY_ROUTING_KEY_")}
    assert [name for name in sorted(secret - teams) if f"`{PREFIX}{name}`" not in page] == []
    assert [name for name in sorted(teams) if name.removeprefix("PAGERDUTY_ROUTING_KEY") not in page] == []
