"""Slack: one message for an incident, edited in place, whatever dies between."""

from collections.abc import Iterator

import pytest
from alert_receivers import HttpReceiver, SlackChannel
from msgspec.structs import replace

from alerts.outbox import Outbox
from alerts.receiver import Outcome
from alerts.settings import AlertsSettings
from alerts.slack import Slack
from schemas import AlertState, Incident
from schemas.examples import EXAMPLES
from schemas.finding import Evidence

INCIDENT = next(e for e in EXAMPLES if isinstance(e, Incident))
OVER = replace(INCIDENT, revision=2, change="resolve", state="resolved")


class Desk:
    def __init__(self, place: HttpReceiver, channel: SlackChannel) -> None:
        self.place, self.channel, self.now_s = place, channel, 0.0
        self.slack = Slack(
            AlertsSettings(
                slack_url=place.url + "/api", slack_token="xoxb-test", slack_channel="alerts", alerts_timeout_s=0.5
            )
        )
        self.states: list[AlertState] = []
        self.start()

    def start(self) -> None:
        self.box = Outbox("slack", self.slack.render, route=self.slack.route, knows=self.slack.knows)
        self.box.restore(self.states[-1:])

    def tell(self, incident: Incident) -> None:
        news = self.box.offer(incident)
        assert news is not None
        self.states.append(news)

    def run(self, settle: bool = True) -> list[Outcome]:
        outcomes = []
        for _ in range(5):
            self.now_s += 100.0
            if (state := self.box.next(self.now_s)) is not None:
                self.states.append(state)
                answer = self.slack.deliver(state)
                outcomes.append(answer.outcome)
                if not settle:
                    return outcomes
                self.states += self.box.settle(state.incident, answer, self.now_s)
        return outcomes


@pytest.fixture
def desk() -> Iterator[Desk]:
    channel = SlackChannel()
    with HttpReceiver(channel.answer) as place:
        yield Desk(place, channel)


def test_one_message_is_edited_until_it_is_over(desk: Desk) -> None:
    desk.tell(INCIDENT)
    desk.run()
    desk.start()  # what names the message is known after a restart
    desk.tell(replace(INCIDENT, revision=1, cause="leak"))
    desk.run()
    desk.tell(OVER)
    desk.run()
    (message,) = desk.channel.messages.values()
    assert len(desk.channel.edits) == 2
    assert message["text"].startswith(":white_check_mark: Over: GPU degraded")


def test_a_post_whose_answer_was_lost_is_found_and_not_repeated(desk: Desk) -> None:
    desk.tell(INCIDENT)
    desk.place.trouble.append("lost")
    assert desk.run() == [Outcome.RETRY, Outcome.DELIVERED]
    assert len(desk.channel.messages) == 1


def test_a_death_after_the_post_leaves_one_message(desk: Desk) -> None:
    desk.tell(INCIDENT)
    desk.run(settle=False)
    desk.start()
    desk.run()
    desk.tell(OVER)
    desk.run()
    assert len(desk.channel.messages) == 1


def test_without_the_scope_to_read_history_it_is_posted_rather_twice_than_never(desk: Desk) -> None:
    desk.channel.history = False
    desk.tell(INCIDENT)
    desk.place.trouble.append("lost")
    assert desk.run() == [Outcome.RETRY, Outcome.DELIVERED]
    assert len(desk.channel.messages) == 2


def test_a_search_that_slack_would_answer_later_posts_nothing_meanwhile(desk: Desk) -> None:
    desk.tell(INCIDENT)
    desk.place.trouble += ["lost", 500, 429]
    assert desk.run() == [Outcome.RETRY, Outcome.RETRY, Outcome.RETRY_LATE, Outcome.DELIVERED]
    assert len(desk.channel.messages) == 1


def test_a_post_is_found_among_a_hundred_of_the_longest_messages(desk: Desk) -> None:
    long = "<&>" * 2000
    desk.tell(replace(INCIDENT, summary=long, action=long, evidence=tuple(Evidence(text=long) for _ in range(12))))
    desk.run(settle=False)
    (posted,) = desk.channel.messages.values()
    for number in range(99):
        desk.channel.messages[f"1800000000.{number:06}"] = posted | {"metadata": {"event_payload": ["another's"]}}
    desk.start()
    assert desk.run() == [Outcome.DELIVERED]
    assert len(desk.channel.messages) == 100


@pytest.mark.parametrize("said", [b'{"ok": true, "messages": [7, null, {"metadata": 3}]}', b'{"messages": 7}'])
def test_a_history_of_another_shape_holds_no_message_of_ours(desk: Desk, said: bytes) -> None:
    whole = desk.place.answer
    desk.place.answer = lambda request: (200, {}, said) if "history" in request.path else whole(request)
    desk.tell(INCIDENT)
    desk.place.trouble.append(500)
    assert desk.run() == [Outcome.RETRY, Outcome.DELIVERED]


def test_a_message_that_somebody_deleted_is_posted_anew_and_not_for_its_end(desk: Desk) -> None:
    desk.tell(INCIDENT)
    desk.run()
    desk.channel.messages.clear()
    desk.tell(replace(INCIDENT, revision=1, cause="leak"))
    assert desk.run() == [Outcome.DELIVERED]
    assert len(desk.channel.messages) == 1
    desk.channel.messages.clear()
    desk.tell(OVER)
    assert desk.run() == [Outcome.DELIVERED]
    assert desk.channel.messages == {}


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        ("ratelimited", Outcome.RETRY_LATE),
        ("token_revoked", Outcome.KEY_REFUSED),
        ("not_in_channel", Outcome.KEY_REFUSED),
        ("internal_error", Outcome.RETRY),
        ("invalid_blocks", Outcome.REJECTED),
    ],
)
def test_slacks_own_word_in_the_body_counts(desk: Desk, error: str, outcome: Outcome) -> None:
    desk.channel.error = error
    desk.tell(INCIDENT)
    assert desk.run(settle=False) == [outcome]


def test_its_control_characters_are_escaped(desk: Desk) -> None:
    body = desk.slack.render(replace(INCIDENT, summary="<!channel> a & b"), "trigger").decode()
    assert "<!channel>" not in body
    assert "&lt;!channel&gt; a &amp; b" in body
