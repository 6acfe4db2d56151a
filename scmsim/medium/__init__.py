"""Memory technologies: one TOML file each, one model (`model.py`) for all."""
