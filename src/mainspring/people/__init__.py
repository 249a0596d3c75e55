"""People and programs: what each may do, and the log of what they commanded."""
