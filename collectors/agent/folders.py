"""The folders that settings name: one that is not there is said once, and once more when it is.

A folder may come with the first job, so it is no error; and every collector looks for its own at each turn. But a name
that was misspelt looks just like a job that writes nothing.
"""

import logging
import os

from collectors.agent.settings import AgentSettings

logger = logging.getLogger(__name__)

FOLDERS = ("inspector_dir", "steps_dir", "flight_dir", "job_log_dir", "job_mapping_dir", "bms_dir")


def wrong(folder: str) -> str:
    """Why the folder cannot be read; "" where it can."""
    if not os.path.exists(folder):
        return "is not there"
    if not os.path.isdir(folder):
        return "is no folder"
    return "" if os.access(folder, os.R_OK | os.X_OK) else "cannot be read"


class Folders:
    """What `settings` name. `look` now and then: it tells the log what has changed."""

    def __init__(self, settings: AgentSettings) -> None:
        self._named = {name: folder for name in FOLDERS if (folder := getattr(settings, name))}
        self._wrong = dict.fromkeys(self._named, "")

    def look(self) -> None:
        for name, folder in self._named.items():
            before, self._wrong[name] = self._wrong[name], wrong(folder)
            if self._wrong[name] and self._wrong[name] != before:
                said = f"--{name.replace('_', '-')} {folder} {self._wrong[name]}"
                logger.warning("%s: nothing is read from it until it can be (lockstep doctor)", said)
            elif before and not self._wrong[name]:
                logger.info("--%s %s can be read now", name.replace("_", "-"), folder)
