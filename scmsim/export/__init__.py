"""Export results for other tools: profilers (`stacks`), Perfetto (`perfetto`), CI servers (`junit`)."""
