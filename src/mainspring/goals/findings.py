"""What a goal's work has left behind, as far as it can be measured: files, metrics, claims.

Looks at the workspace before and after each iteration, records what it finds, and tells it in lines for the
next prompt. What was found earlier is folded from the journal.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from mainspring.context.history import read_all
from mainspring.events import ArtifactsChanged, CheckEnded, GoalSet
from mainspring.evidence.artifact_scan import GoalFolder
from mainspring.evidence.artifacts import Artifact, Artifacts, makers, read_artifacts
from mainspring.evidence.checks import frozen_check
from mainspring.evidence.claim_checks import named_files
from mainspring.evidence.derivation import Derivation
from mainspring.evidence.evaluation import frozen_changes
from mainspring.goals.experiment import Experiment
from mainspring.goals.fold import Iteration
from mainspring.goals.memory import GoalMemory
from mainspring.goals.profiles import Profile
from mainspring.journal import last_event
from mainspring.turns.runtime import Runtime
from mainspring.waits.describe import clock

_MADE_KINDS = ("AssistantSaid", "FilesChanged")


class Findings:
    def __init__(self, runtime: Runtime, profile: Profile, cache: Path) -> None:
        self._runtime = runtime
        self._recorder = runtime.recorder
        self._files = runtime.workbench.files
        self._profile = profile
        self._cache = cache
        self._folder: GoalFolder | None = None
        self._artifacts: Artifacts | None = None
        self._changed: ArtifactsChanged | None = None
        self._thawed: tuple[str, ...] = ()
        self._experiment = Experiment(runtime)
        self._derivation = Derivation(
            profile.claims,
            journal=runtime.journal,
            files=runtime.workbench.files,
            sandbox=runtime.sandbox,
            keep=runtime.recorder.put_blob,
            record=runtime.record,
            vault=runtime.recorder.vault,
        )

    async def look(self, iteration: int, since: int = 0) -> None:
        """Records what changed in the files since the last look. The commands recorded after `since` may have
        made it."""
        known = self._artifacts or await read_artifacts(self._runtime.journal, self._recorder.vault)
        self._artifacts = known
        made_by = await self._makers(since) if since else {}
        folder = self._folder = self._folder or await self._opened()
        changed = await folder.look(known.present, iteration, made_by, self._recorder.put_blob)
        if changed is None:
            return
        await self._runtime.record(changed)
        known.apply(changed, await self._recorder.get_blob(changed.listing) if changed.listing else None)
        self._changed = changed

    async def gather(self, goal: GoalSet, current: Iteration) -> list[str]:
        """Records what an iteration left behind, unless it is on record already; says of what kinds something
        is new."""
        kinds: list[str] = []
        files = self._files
        # Looked at before the checks run as well: a check that was replaced can put itself back.
        self._thawed = tuple(await asyncio.to_thread(frozen_changes, goal.evaluation, files))
        await self.look(current.number, current.started_seq)
        changed = await self._runtime.journal.last("ArtifactsChanged")
        if changed and changed.seq > current.started_seq and isinstance(changed.event, ArtifactsChanged):
            self._changed = changed.event
            kinds.append("files")
        made = self._artifacts.made if self._artifacts else ()
        if await self._experiment.measure(goal, current, made):
            kinds.append("metrics")
        if self._profile.claims and await self._derivation.gather(current.number):
            kinds.append("claims")
        return kinds

    def changed_lines(self, iteration: int) -> tuple[str, ...]:
        """The files that the last iteration, or something since, changed."""
        known = self._artifacts.all if self._artifacts else ()
        return tuple(_line(item) for item in known if item.iteration == iteration and iteration)

    async def lines(self, goal: GoalSet) -> tuple[str, ...]:
        """What is known about metrics and claims."""
        return (*await self._experiment.lines(goal), *await self._derivation.lines())

    async def proofs(self, goal: GoalSet, iteration: int) -> list[CheckEnded]:
        """What the metrics, the claims and the files that decide say about being done."""
        found = await self._experiment.targets(goal, iteration)
        found += await asyncio.to_thread(self._deciding_files, goal, iteration)
        if goal.checks.needs_claims and await self._derivation.is_begun():
            found.append(await self._derivation.proof(iteration))
        return found

    def noted(self, memory: GoalMemory, at_us: int) -> GoalMemory:
        """The memory file with what we know about the files."""
        if self._changed is None:
            return memory
        listing = self._changed.listing
        handle = f"blob:{listing.sha256}" if listing else f"mainspring artifacts {self._recorder.session}"
        return memory.with_artifacts(self._changed, handle, at_us)

    async def _opened(self) -> GoalFolder:
        """The folder without the files that are ours: the memory of this very goal, and the claims."""
        goal = await last_event(self._runtime.journal, GoalSet)
        memory = self._recorder.vault.expand(goal.memory) if goal else ""
        workspace = self._runtime.state.workspace
        own = tuple(
            workspace / name for name in (memory or self._profile.memory, self._profile.claims) if name
        )
        include = self._profile.artifacts
        holds_secrets = self._recorder.vault.holds_secrets
        return GoalFolder(
            self._files,
            workspace,
            self._cache,
            include=include,
            left_out=own,
            holds_secrets=holds_secrets,
        )

    def _deciding_files(self, goal: GoalSet, iteration: int) -> list[CheckEnded]:
        """The frozen files, and files from before the goal that a check names and the agent changed: who
        writes what decides should be known. Files that stayed as they were show nothing by themselves."""
        files, checks = self._files, goal.checks
        is_checked = bool(checks.commands or checks.files or checks.targets or checks.needs_claims)
        kept = frozen_check(goal.evaluation, files, iteration=iteration, before=self._thawed)
        found = [kept] if kept and (is_checked or not kept.passed) else []
        known = self._artifacts or Artifacts()
        changed = {item.path: item for item in known.made if item.path in known.first}
        named = {path.removeprefix("./") for line in checks.commands for path in named_files(line, files)}
        return found + [_own_check(changed[path], iteration) for path in sorted(named & changed.keys())]

    async def _makers(self, since: int) -> dict[str, str]:
        recorded = await read_all(self._runtime.journal, kinds=_MADE_KINDS, after=since)
        return makers(recorded, self._recorder.vault)


def _own_check(item: Artifact, iteration: int) -> CheckEnded:
    """Says with the checks that one of them was not only the user's."""
    return CheckEnded(
        iteration=iteration,
        check=item.path,
        kind="file",
        passed=True,
        detail=f"named in a check, and changed by the agent itself in iteration {item.iteration}",
        sha256=item.sha256,
    )


def _line(item: Artifact) -> str:
    """With what became of it, and when it was written."""
    if item.is_deleted:
        return f"{item.path} (deleted)"
    became = "new" if item.is_new else "modified"
    if item.renamed_from:
        became = f"renamed from {item.renamed_from}"
    at = f", {clock(item.mtime_us)}" if item.mtime_us else ""
    made_by = f", made by `{item.made_by}`" if item.made_by else ""
    return f"{item.path} ({became}, {item.size:,} bytes{at}{made_by})"
