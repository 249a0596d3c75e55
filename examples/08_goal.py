"""Work towards a goal until its check passes. Here the agent is a shell script; it could be `builtin`."""

import tempfile
from pathlib import Path

from mainspring import ExploopConfig, run_exploop

with tempfile.TemporaryDirectory() as folder:
    agent = "cat > /dev/null; echo x >> work; echo '<promise>DONE</promise>'\n"
    Path(folder, "agent.sh").write_text(agent)
    config = ExploopConfig(
        goal="Write three lines into the file work.",
        workspace=folder,
        engine="exec:sh agent.sh",
        checks=('test "$(wc -l < work)" -eq 3',),
        wait_seconds=0,
    )
    code = run_exploop(config)
    print(f"exit code {code}, lines: {len(Path(folder, 'work').read_text().splitlines())}")
