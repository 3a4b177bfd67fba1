"""Progress: in place on a terminal, few lines elsewhere."""

from lockstep.progress import Progress, left
from runtime.clock import SystemClock


class Hand(SystemClock):
    """A clock that stands where it is put."""

    now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


def test_without_a_terminal_three_minutes_of_one_phase_are_seven_lines() -> None:
    clock, said = Hand(), []
    progress = Progress(clock, False, said.append)
    for second in range(181):
        clock.now_s = second
        progress(f"{second}", "warm-up")
    assert said == ["0\n", "30\n", "60\n", "90\n", "120\n", "150\n", "180\n"]


def test_a_change_of_phase_is_said_at_once() -> None:
    clock, said = Hand(), []
    progress = Progress(clock, False, said.append)
    progress("warm-up", 1)
    progress("found", 2)
    progress("still", 2)
    progress.end()
    assert said == ["warm-up\n", "found\n"]


def test_a_terminal_shows_every_line_in_place() -> None:
    said: list[str] = []
    progress = Progress(Hand(), True, said.append)
    progress("a", 1)
    progress("b", 1)
    progress.end()
    assert said == ["\r\x1b[Ka", "\r\x1b[Kb", "\n"]


def test_the_time_left_is_at_the_pace_so_far_and_unknown_before_it_began() -> None:
    assert left(0, 120, 20) == left(9, 120, 20) == ""
    assert left(60, 120, 20) == ", at most 20 s more"
    assert left(130, 120, 20) == ", at most 0 s more"
