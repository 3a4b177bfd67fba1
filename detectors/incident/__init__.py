"""One incident per fault: which verdicts belong together, their cause, their life and words."""
