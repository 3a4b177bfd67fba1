"""The changelog topics of the agents' state, for `topics create`: compacted, as many partitions as their sources."""

from runtime.groups import WORKER

AGENTS = ("node", "job", "rack", "incident")


def changelog_topic(agent: str, group: str = WORKER) -> str:
    """Where an agent keeps its state; the name is the one Faust gives to the changelog of a table."""
    return f"{group}-{agent}-changelog"


def changelog_topics(group: str = WORKER) -> tuple[str, ...]:
    return tuple(changelog_topic(agent, group) for agent in AGENTS)
