"""Pictures of results; needs the extra `report` (`pip install 'scmsim[report]'`)."""
