"""The isolation forest: what it looks at, exact scoring, calibration, the portable model file."""
