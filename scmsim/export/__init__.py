"""Results for other people's tools: profilers (`stacks`), Perfetto (`perfetto`), CI (`junit`)."""
