"""Pictures of results; needs the extra `report` (`pip install -e '.[report]'`)."""
