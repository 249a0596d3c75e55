"""Run one command without an agent: judged by the policy, confined, recorded."""

import mainspring

print(mainspring.is_allowed(["git", "push", "--force"]))
step = mainspring.run_step(["sh", "-c", "echo built"], timeout_s=60, memory_mb=512, label="build")
print(f"{step.state}, exit code {step.exit_code}: {step.stdout.decode()}", end="")
