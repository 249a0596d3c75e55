"""What lies in a workspace: instructions, skills, what marks a project, and what is remembered about it."""
