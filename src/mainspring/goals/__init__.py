"""Work towards a goal for hours: iterations, waits, memory, artifacts, evidence, stop rules."""
