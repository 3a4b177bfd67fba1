"""SIGTERM and Ctrl-C as an event that a process looks at."""

import _thread
import signal
import threading


def set_on(stop: threading.Event, *numbers: signal.Signals) -> None:
    """Set `stop` when one of the signals comes, as often as they come. From the main thread only.

    In a thread of its own: the one that a signal interrupts may hold the event's lock, waiting for it or setting it for
    the signal before, and would wait for itself for ever. Several come at once more often than one would think: Ctrl-C
    by an impatient person, and the kernel's, once for each thread of a parent that is killed.
    """
    for number in numbers:
        signal.signal(number, lambda *_: _thread.start_new_thread(stop.set, ()))
