"""What a goal's work has left behind, as far as it can be measured: files, metrics, claims.

Looks at the workspace before and after each iteration, records what it finds, and tells it in lines for the
next prompt. What was found earlier is folded from the journal.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from mainspring.context.history import read_all
from mainspring.disk.files import output_files
from mainspring.errors import PathRefused
from mainspring.events import ArtifactsChanged, CheckEnded, FrozenFile, GoalSet
from mainspring.evidence.artifact_scan import GoalFolder
from mainspring.evidence.artifacts import Artifact, Artifacts, makers, read_artifacts
from mainspring.evidence.checks import frozen_check
from mainspring.evidence.commands import drop_bytecode
from mainspring.evidence.derivation import Derivation
from mainspring.evidence.evaluation import frozen_changes
from mainspring.evidence.frozen_copy import kept_contents
from mainspring.evidence.grades import named
from mainspring.evidence.loaded_files import Deciding, ReadText, deciding_files
from mainspring.evidence.put_back import MAX_WRITTEN, PutBack
from mainspring.goals.experiment import Experiment
from mainspring.goals.fold import Iteration
from mainspring.goals.memory import GoalMemory
from mainspring.goals.profiles import Profile
from mainspring.journal import last_event
from mainspring.turns.runtime import Runtime
from mainspring.waits.describe import clock

_MADE_KINDS = ("AssistantSaid", "FilesChanged")
_MAX_SCRIPT = 1_000_000


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
        self._kept_lines: set[str] = set()
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

    async def keep_deciding(self, goal: GoalSet) -> None:
        """Keeps the contents of frozen files and of those that decide the checks, each once: evaluations and
        checks run from them after a change."""
        known = self._artifacts or Artifacts()
        wanted = {each.path: each for each in goal.evaluation.hashes}
        lines = tuple(line for line in goal.checks.commands if line not in self._kept_lines)
        for line in lines:
            deciding = await asyncio.to_thread(self._deciding, line, goal, self._text)
            originals = (known.first[path] for path in sorted(deciding.all) if known.is_original(path))
            wanted |= {each.path: FrozenFile(path=each.path, sha256=each.sha256) for each in originals}
        self._kept_lines |= {*lines}
        new = [each for each in wanted.values() if each.sha256 and each.sha256 not in known.frozen]
        if new and (kept := await kept_contents(new, self._files, self._recorder.put_blob)):
            event = ArtifactsChanged(iteration=0, frozen=kept)
            await self._runtime.record(event)
            known.apply(event)

    async def begin(self, goal: GoalSet) -> None:
        """Notes what was there before the first iteration."""
        present = self._artifacts.present if self._artifacts else {}
        await self._experiment.begin(goal, present.values())

    async def gather(self, goal: GoalSet, current: Iteration) -> list[str]:
        """Records what an iteration left behind, unless it is on record already; says of what kinds something
        is new."""
        kinds: list[str] = []
        files = self._files
        # Looked at before the checks run as well: a check that was replaced can put itself back.
        self._thawed = tuple(await asyncio.to_thread(frozen_changes, goal.evaluation, files))
        await self.look(current.number, current.started_seq)
        changed = await self._runtime.journal.last("ArtifactsChanged")
        found = changed.event if changed and changed.seq > current.started_seq else None
        if isinstance(found, ArtifactsChanged) and found.iteration:
            self._changed = found
            kinds.append("files")
        if goal.evaluation.command or goal.checks.commands or goal.checks.needs_claims:
            await asyncio.to_thread(drop_bytecode, self._artifacts.present if self._artifacts else (), files)
        doubts = await asyncio.to_thread(self._changed_evaluator, goal)
        if await self._experiment.measure(goal, current, self._artifacts or Artifacts(), self._kept, doubts):
            kinds.append("metrics")
        if self._profile.claims and await self._derivation.gather(current.number):
            kinds.append("claims")
        return kinds

    def changed_lines(self, iteration: int, most: int) -> tuple[tuple[str, ...], int]:
        """The first of the files that the last iteration, or something since, changed; and how many did."""
        known = self._artifacts.all if self._artifacts and iteration else ()
        changed = [item for item in known if item.iteration == iteration]
        return tuple(map(_line, changed[:most])), len(changed)

    async def lines(self, goal: GoalSet) -> tuple[str, ...]:
        """What is known about metrics and claims."""
        return (*await self._experiment.lines(goal), *await self._derivation.lines())

    async def proofs(self, goal: GoalSet, iteration: int) -> list[CheckEnded]:
        """What the metrics, the claims and the files that decide say about being done."""
        command = goal.evaluation.command
        found = [
            await asyncio.to_thread(self.graded, check, command, goal) if command else check
            for check in await self._experiment.targets(goal, iteration)
        ]
        found += await asyncio.to_thread(self._frozen_files, goal, iteration)
        if goal.checks.needs_claims:
            found.append(await self._proof(goal, iteration))
        return found

    async def _proof(self, goal: GoalSet, iteration: int) -> CheckEnded:
        """Whether the claims prove the goal; the agent wrote them and the checks, unless they are frozen."""
        proof = await self._derivation.proof(iteration)
        if not proof.passed:
            return proof
        lines, doubts = await self._derivation.deciding()
        is_frozen = any(each.path == self._profile.claims for each in goal.evaluation.hashes)
        written = dict.fromkeys(() if is_frozen else (self._profile.claims,))
        for line in lines:
            written |= dict.fromkeys(await asyncio.to_thread(self.written, line, goal))
        grade = "checked" if written or doubts else "verified"
        return msgspec.structs.replace(
            proof, grade=grade, written=tuple(written)[:MAX_WRITTEN], doubts=doubts[:MAX_WRITTEN]
        )

    def noted(self, memory: GoalMemory, at_us: int) -> GoalMemory:
        """The memory file with what we know about the files."""
        if self._changed is None:
            return memory
        listing = self._changed.listing
        handle = f"blob:{listing.sha256}" if listing else f"mainspring artifacts {self._recorder.session}"
        return memory.with_artifacts(self._changed, handle, at_us)

    async def _opened(self) -> GoalFolder:
        """The folder without the files that are ours: the memory of this very goal, the claims and
        what we print."""
        goal = await last_event(self._runtime.journal, GoalSet)
        memory = self._recorder.vault.expand(goal.memory) if goal else ""
        workspace = self._runtime.state.workspace
        own = tuple(
            workspace / name for name in (memory or self._profile.memory, self._profile.claims) if name
        )
        own += output_files()
        include = self._profile.artifacts
        holds_secrets = self._recorder.vault.holds_secrets
        return GoalFolder(
            self._files,
            workspace,
            self._cache,
            include=include,
            left_out=own,
            holds_secrets=holds_secrets,
            known_content=self._runtime.workbench.time_machine.known_content,
        )

    async def graded_check(self, check: CheckEnded, goal: GoalSet) -> CheckEnded:
        """A check of the user that ran, with what it is worth when it passed. When the agent changed what
        decides, it runs once more with that as it was."""
        if not check.passed:
            return check
        put_back = PutBack(
            line=check.check,
            decide=lambda read: self._deciding(check.check, goal, read),
            artifacts=self._artifacts or Artifacts(),
            read=self._text,
            files=self._files,
            sandbox=await self._runtime.sandbox(),
            fetch=self._kept,
        )
        return await put_back.graded(check)

    def graded(self, check: CheckEnded, line: str, goal: GoalSet) -> CheckEnded:
        """A target that was reached by a command line, with what it is worth. For a thread."""
        if not check.passed:
            return check
        written = self.written(line, goal)
        grade = "checked" if written else "verified"
        return msgspec.structs.replace(check, grade=grade, written=written[:MAX_WRITTEN])

    def written(self, line: str, goal: GoalSet) -> tuple[str, ...]:
        """The files that may decide what a command line says and that the agent wrote or changed."""
        return self._deciding(line, goal, self._text).written

    def _deciding(self, line: str, goal: GoalSet, read: ReadText) -> Deciding:
        known, frozen = self._artifacts or Artifacts(), {each.path for each in goal.evaluation.hashes}
        root = str(self._files.policy.workspace)
        return deciding_files(line, known, read, frozen=frozen, work=goal.checks.files, root=root)

    def _changed_evaluator(self, goal: GoalSet) -> tuple[str, ...]:
        """What to say of measurements by scripts that are the agent's: they may be the work itself. For a
        thread."""
        found = self._deciding(goal.evaluation.command, goal, self._text)
        scripts = [path for path in found.written if path in found.scripts]
        return (f"the agent wrote or changed {named(scripts)}, and it is not frozen",) if scripts else ()

    async def _kept(self, sha256: str) -> bytes | None:
        blob = self._artifacts.frozen.get(sha256) if self._artifacts else None
        return await self._recorder.get_blob(blob) if blob else None

    def _text(self, path: str) -> str | None:
        try:
            return self._files.read(path, max_bytes=_MAX_SCRIPT).data.decode("utf-8", "replace")
        except (OSError, PathRefused):
            return None

    def _frozen_files(self, goal: GoalSet, iteration: int) -> list[CheckEnded]:
        """Whether the frozen files are what they were; that shows nothing by itself."""
        files, checks = self._files, goal.checks
        is_checked = bool(checks.commands or checks.files or checks.targets or checks.needs_claims)
        kept = frozen_check(goal.evaluation, files, iteration=iteration, before=self._thawed)
        return [kept] if kept and (is_checked or not kept.passed) else []

    async def _makers(self, since: int) -> dict[str, str]:
        recorded = await read_all(self._runtime.journal, kinds=_MADE_KINDS, after=since)
        return makers(recorded, self._recorder.vault)


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
