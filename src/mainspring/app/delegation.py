"""Children of a session: opens each as a session that may do no more than its parent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from pathlib import Path

from mainspring.agents.children import ChildRunner
from mainspring.agents.files import READERS, Agent
from mainspring.agents.ports import ChildPlace
from mainspring.app import build
from mainspring.app.agents_beside import worktrees_folder
from mainspring.app.models import delegated_model
from mainspring.app.operations.agents import agent_refusal
from mainspring.app.operations.attempts import continue_attempts, take_attempts
from mainspring.app.prompt import skills_of
from mainspring.app.search import search_tools
from mainspring.approvals.questions import Approver
from mainspring.catalog import Sessions
from mainspring.errors import UsageError
from mainspring.events import ChildStarted, Origin, Recorded
from mainspring.folds.caps import is_money_capped
from mainspring.models import Model
from mainspring.models.wrapper import SharedModel
from mainspring.sandbox import Sandbox
from mainspring.session.child import ChildSession
from mainspring.session.session import Session, runtime_of
from mainspring.settings import Config
from mainspring.tools import Tool
from mainspring.turns.runtime import Runtime
from mainspring.workspace.skills import Skill
from mainspring.workspace.worktrees import Worktree


def runner_of(
    session: Session,
    agents: Mapping[str, Agent],
    config: Config,
    store: Sessions,
    sandbox: Sandbox | str,
    origin: Origin | None,
    *,
    allow_home: bool,
) -> ChildRunner:
    """What runs the children of a session."""

    def opened(
        started: ChildStarted, agent: Agent, place: ChildPlace, approver: Approver, *, is_new: bool
    ) -> AbstractAsyncContextManager[Session]:
        return open_child(
            session,
            started,
            agent,
            place,
            approver,
            config=config,
            store=store,
            sandbox=sandbox if isinstance(sandbox, str) else "",
            origin=origin,
            allow_home=allow_home,
            is_new=is_new,
        )

    def refusal(agent: Agent, model: str) -> str:
        try:
            _model(model, session, config)
        except UsageError as error:
            return f"{error.message} {error.remedy}"
        return agent_refusal(config, agent)

    def copy_for(child: str) -> Worktree:
        files = runtime_of(session).workbench.files
        folder = worktrees_folder(config) / child
        return Worktree(folder, session.state.workspace, files, config.environment)

    return ChildRunner(session, store, agents, opened, refusal, copy_for, checked_turns)


def open_child(
    parent: Session,
    started: ChildStarted,
    agent: Agent,
    place: ChildPlace,
    approver: Approver,
    *,
    config: Config,
    store: Sessions,
    sandbox: str,
    origin: Origin | None,
    allow_home: bool,
    is_new: bool,
) -> AbstractAsyncContextManager[Session]:
    """The session of a child, new or going on: under the policy of its parent, in its mode or a stricter."""
    runtime, state = runtime_of(parent), parent.state
    is_reading = started.isolation == "read-only"
    model = _model(started.model, parent, config)
    is_shared = isinstance(model, SharedModel)
    fallback = [SharedModel(runtime.models.find(name)) for name in state.fallbacks] if is_shared else []
    return build.open(
        place.folder,
        session="" if is_new else started.child,
        model=model,
        fallback=fallback,
        effort=agent.effort or state.effort,
        mode="plan" if is_reading else state.level or state.mode,
        limits=started.limits,
        instructions=_instructions(agent, config, state.workspace) if is_new else "",
        tools=_tools(agent, config, is_reading=is_reading),
        sandbox=sandbox,
        policy=runtime.approvals.policy,
        approver=approver,
        allow_unpriced=is_shared or _is_unpriced(runtime),
        allow_home=allow_home,
        parent=ChildSession(parent, started.child, agent.name, place.readable),
        config=config,
        sessions=store,
        origin=origin,
    )


def _tools(agent: Agent, config: Config, *, is_reading: bool) -> tuple[Tool | str, ...]:
    """What a child works with; it searches the web where its parent can."""
    names = [each for each in agent.tools if not is_reading or each in (*READERS, *_LOOKING)]
    if _SEARCH not in names:
        return tuple(names)
    search = search_tools(config)[0] if config.settings.search.backend else []
    return (*(each for each in names if each != _SEARCH), *search)


async def checked_turns(session: Session, started: ChildStarted) -> AsyncGenerator[Recorded]:
    """Works on a task once and runs its checks there, or goes on with that."""
    is_begun = await session.journal.last("AttemptsStarted") is not None
    taken = partial(take_attempts, session, started.task, attempts=1, checks=started.checks)
    async with aclosing(continue_attempts(session) if is_begun else taken()) as events:
        async for item in events:
            yield item


def _model(name: str, parent: Session, config: Config) -> Model | str:
    """The model that an agent's file or a call names, where it is known and may be asked; else that of the
    parent."""
    models = runtime_of(parent).models
    if name in parent.state.fallbacks:
        return SharedModel(models.find(name))
    is_own = name in ("", models.current.name)
    return (not is_own and delegated_model(name, config)) or SharedModel(models.current)


def _is_unpriced(parent: Runtime) -> bool:
    """Whether a person let the parent work under a cap without a price."""
    return parent.models.current.price is None and is_money_capped(parent.limits)


def _instructions(agent: Agent, config: Config, workspace: Path) -> str:
    skills = {each.name: each for each in skills_of(workspace, config)[0]}
    wanted: list[Skill] = [skills[name] for name in agent.skills if name in skills]
    first = [f"Read the skill {each.name} first: {each.path}" for each in wanted]
    return "\n".join([_ABOUT, *first, agent.text]).strip()


_SEARCH = "web_search"
_LOOKING = ("fetch", _SEARCH, "wait")
_ABOUT = (
    "You work for another agent, which gave you your task and sees nothing of you but your last message: put"
    " all of your answer into it. Nobody can answer questions; where something is unclear, say what you took"
    " it for."
)
