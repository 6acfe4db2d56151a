"""Studies that take many replays, or only a trace: space, page sizes, write amplification, worst cases, calibration."""
