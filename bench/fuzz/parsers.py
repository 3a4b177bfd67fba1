"""Every parser of text or bytes from outside. A new one is a line in one of the two dicts, and fuzzed from then on."""

from bench.fuzz.collected import COLLECTED
from bench.fuzz.parser import Parser
from bench.fuzz.recorded import RECORDED

PARSERS: dict[str, Parser] = {**COLLECTED, **RECORDED}
