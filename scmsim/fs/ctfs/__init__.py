"""ctFS."""
