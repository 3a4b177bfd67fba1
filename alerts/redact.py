"""Takes what looks like a secret out of text that leaves the house.

Evidence may quote a log line, and a log line may hold anything. The forms are those of well-known tokens and of words
that announce one; a secret without any such sign cannot be seen.
"""

import re

HIDDEN = "[secret]"

_FORMS = (
    re.compile(r"(?i)\b(authorization\s*[:=]\s*(?:basic|bearer)\s+)[^\s,;\"']+"),
    re.compile(r"(?i)(\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}"),
    re.compile(
        r"(?i)((?:pass(?:word|wd)?|secret|token|api[_-]?key|access[_-]?key|routing[_-]?key|credentials?)"
        r"[\"']?\s*[:=]\s*[\"']?)[^\s,;&\"']+"
    ),
    re.compile(r"(://[^\s/:@]+:)[^\s/@]+(?=@)"),
    re.compile(r"()\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    re.compile(r"()\b(?:hf|ghp|gho|ghs|glpat|xox[abprs]|sk|nvapi)[_-][A-Za-z0-9_-]{16,}"),
    re.compile(r"()\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*"),
)


def redact(text: str) -> str:
    """`text` with secrets replaced.

    >>> redact("wandb login: WANDB_API_KEY=0123abcd failed")
    'wandb login: WANDB_API_KEY=[secret] failed'
    """
    for form in _FORMS:
        text = form.sub(lambda found: found[1] + HIDDEN, text)
    return text
