"""Who waits for whom, and for whom in the end: the wait-for graph of a job that stands still.

A rank that waits in a collective waits for the members that have not come. Those may themselves wait elsewhere, so
most ranks of a hung job look guilty to somebody. The ones who are waited for and wait for nobody are where it began;
a ring of ranks that wait only for each other is a deadlock. (The idea of deadlock detection by wait-for graphs:
Holt, "Some Deadlock Properties of Computer Systems", ACM Computing Surveys 4(3), 1972.)
"""

from collections.abc import Hashable, Mapping, Set
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def ends(waits: Mapping[Node, Set[Node]]) -> list[frozenset[Node]]:
    """The sets of nodes at which all waiting ends: strongly connected components that are waited for and that wait for
    nobody outside. One node alone is a culprit, several are a deadlock.

    `waits` says of every waiting node for whom it waits. Linear in edges (Tarjan 1972, without recursion).
    """
    index: dict[Node, int] = {}
    low: dict[Node, int] = {}
    stack: list[Node] = []
    on_stack: set[Node] = set()
    found: list[frozenset[Node]] = []
    for root in waits:
        if root in index:
            continue
        work = [(root, iter(waits[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(waits.get(other, frozenset()))))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = set()
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        component.add(member)
                        if member == node:
                            break
                    found.append(frozenset(component))
    awaited = {other for node, others in waits.items() for other in others if other != node}
    return [
        component
        for component in found
        if component & awaited and all(waits.get(node, frozenset()) <= component for node in component)
    ]


def waiters(waits: Mapping[Node, Set[Node]], end: Set[Node]) -> set[Node]:
    """The nodes outside `end` that wait for it, directly or over others."""
    back: dict[Node, set[Node]] = {}
    for node, others in waits.items():
        for other in others:
            back.setdefault(other, set()).add(node)
    seen = set(end)
    todo = list(end)
    while todo:
        for node in back.get(todo.pop(), ()):
            if node not in seen:
                seen.add(node)
                todo.append(node)
    return seen - set(end)
