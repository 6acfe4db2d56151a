"""Studies made of many replays, or of a trace alone: space, page sizes, write amplification, worst cases, calibration."""
