"""The errors a person can act on.

UserError               one line on the terminal, exit status 2
├── BrokerUnreachable   no broker at the given address
└── BrokerLostRecords   the embedded broker forgot what somebody had still to read
"""


class UserError(Exception):
    """What is wrong, where, and what to do, in one line. Never shown with a traceback; exit status 2."""

    exit_code = 2


class BrokerUnreachable(UserError):
    """Nothing answers Kafka's protocol at the address."""


class BrokerLostRecords(UserError):
    """The embedded broker's memory was full, and records went that a group had not read."""
