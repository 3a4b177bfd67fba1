"""Takes what looks like a secret out of text that leaves the house.

Evidence may quote a log line, and a log line may hold anything. The forms are those of well-known tokens and of words
that announce one; a secret without any such sign cannot be seen.
"""

import re

HIDDEN = "[secret]"

_WORD = r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|api[_-]?key|access[_-]?key|routing[_-]?key|credentials?)"

_FORMS = (
    re.compile(r"()-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"(?i)\b(authorization\s*[:=]\s*(?:basic|bearer|token|digest|apikey)\s+)[^\s,;\"']+"),
    re.compile(r"(?i)\b((?:set-)?cookie\s*:\s*)[^\s].*"),
    re.compile(r"(?i)(\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}"),
    re.compile(rf"(?i)({_WORD}[\"']?\s*[:=]\s*)(?:\"[^\"]*\"|'[^']*'|[\"']?[^\s,;&\"']+)"),
    re.compile(rf"(?i)((?<![\w-])--?[a-z-]{{0,40}}{_WORD}\s+)[^\s-]\S*"),
    re.compile(r"(?i)([?&](?:sig|signature|key|auth)=)[^\s&#\"']+"),
    re.compile(r"(://[^\s/:@]+:)[^\s/]+(?=@)"),
    re.compile(r"(https?://hooks\.slack\.com/\w+/)[^\s\"'<>]+"),
    re.compile(r"()\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    re.compile(r"()\bAIza[0-9A-Za-z_-]{35}"),
    re.compile(r"()\b(?:hf|gh[oprsu]|github_pat|glpat|xox[abeoprs]|xapp|sk|nvapi|wandb_v1)[_-][A-Za-z0-9_-]{16,}"),
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
