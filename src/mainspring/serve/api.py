"""Every operation that the server has: its path, who may call it, what it takes and gives.

One table. Requests are decoded and answered by it, the OpenAPI document is made from it, and the test that
crawls all routes reads it. GET changes nothing; everything else is a POST.
"""

from __future__ import annotations

import msgspec
import segno

from mainspring import __version__
from mainspring.app.goals import GoalOptions
from mainspring.app.operations.approve import open_questions
from mainspring.app.operations.artifacts import SessionArtifacts, artifacts_of
from mainspring.app.operations.context import WindowUse, window_use
from mainspring.app.operations.cost import Costs, costs
from mainspring.app.operations.device_roles import Device
from mainspring.app.operations.doctor import Diagnosis, diagnose
from mainspring.app.operations.forks import Forked, fork
from mainspring.app.operations.goal_list import graded_goals
from mainspring.app.operations.goals import Ordered, begin_in_background, list_profiles, order_goal
from mainspring.app.operations.kept_artifacts import FoundArtifact
from mainspring.app.operations.messages import Delivery, note, stop
from mainspring.app.operations.notifications import ChannelRow, channels
from mainspring.app.operations.processes import (
    LiveProcess,
    ProcessOutput,
    StoppedProcess,
    list_processes,
    stop_process,
)
from mainspring.app.operations.questions import OpenQuestion
from mainspring.app.operations.reports import goal_report
from mainspring.app.operations.sessions import journal_of, list_sessions
from mainspring.app.operations.settings import SettingValue
from mainspring.app.operations.standing import GivenAnswer, SessionNow
from mainspring.app.operations.tasks import TasksRun
from mainspring.app.operations.timeline import BackAt, BackPreview, StepChanges, file_changes
from mainspring.catalog import SessionRow
from mainspring.documents.json_lines import as_json
from mainspring.errors import UnknownSession, UsageError
from mainspring.events import ApprovalAsked, ApprovalGiven, Blob, GoalChecks, Recorded
from mainspring.evidence.kept import KeptVersion
from mainspring.report.facts import Report
from mainspring.serve import fleet_api, looks, machine_api, push_api, work_api
from mainspring.serve.hub import StartSession, absolute
from mainspring.serve.previews import ArtifactPreview
from mainspring.serve.routes import SESSION, ApiCall, Route, get_route, post_route
from mainspring.serve.values import (
    About,
    Answer,
    ArtifactsCompared,
    ArtifactWords,
    BackAsked,
    BlobAsked,
    CallAskedFor,
    ChangesAsked,
    CostAsked,
    DeviceNamed,
    DeviceRow,
    EventAsked,
    EventPage,
    EventsAfter,
    FolderAsked,
    ForkAt,
    GoBack,
    KeptAsked,
    Nothing,
    Order,
    OutputAsked,
    Page,
    PairCode,
    PairOffer,
    ProcessNamed,
    Said,
    SaveFile,
    SessionAsked,
    Started,
    StartGoal,
)
from mainspring.serve.view import ViewRow, view_of, whole_view

MAX_PAGE = 1000


class ViewPage(msgspec.Struct, frozen=True, kw_only=True):
    rows: list[ViewRow]
    last_seq: int


async def _sessions(asked: ApiCall) -> tuple[SessionRow, ...]:
    rows = await list_sessions(asked.config)
    start = max(0, asked.taken.offset)
    return tuple(rows[start : start + max(0, asked.taken.limit)])


async def _session(asked: ApiCall) -> SessionRow:
    rows = [row for row in await list_sessions(asked.config) if row.id == asked.session]
    if not rows:
        raise UnknownSession(f"There is no session {asked.session}.")
    return rows[0]


async def _events(asked: ApiCall) -> EventPage:
    events, last = await _page_of(asked)
    return EventPage(events=[msgspec.Raw(as_json(each)) for each in events], last_seq=last)


async def _page_of(asked: ApiCall) -> tuple[list[Recorded], int]:
    limit = min(max(1, asked.taken.limit), MAX_PAGE)
    async with journal_of(asked.config, asked.session) as reader:
        last = await reader.last_seq()
        after, until = asked.taken.after, None
        if asked.taken.before is not None:
            until = min(asked.taken.before - 1, last)
            after = max(after, until - limit)
        return await reader.read(after=after, until=until, limit=limit), last


async def _view(asked: ApiCall) -> ViewPage:
    events, last = await _page_of(asked)
    return ViewPage(rows=[view_of(each) for each in events], last_seq=last)


async def _whole(asked: ApiCall) -> ViewRow:
    async with journal_of(asked.config, asked.session) as reader:
        found = await reader.read(after=asked.taken.seq - 1, until=asked.taken.seq, limit=1)
        if not found:
            raise UsageError(f"There is no event {asked.taken.seq}.")
        return await whole_view(found[0], reader)


async def _blob(asked: ApiCall) -> bytes:
    async with journal_of(asked.config, asked.session) as reader:
        return await reader.get(Blob(sha256=asked.taken.sha256, size=asked.taken.size))


async def _changes(asked: ApiCall) -> tuple[StepChanges, ...]:
    found = file_changes(asked.config, asked.session, step=asked.taken.step)
    return tuple([each async for each in found])


async def _questions(asked: ApiCall) -> tuple[OpenQuestion, ...]:
    return await asked.server.fleet.questions(await list_sessions(asked.config))


async def _open_questions(asked: ApiCall) -> tuple[ApprovalAsked, ...]:
    return await open_questions(asked.config, asked.session)


async def _start(asked: ApiCall) -> Started:
    return Started(session=await asked.server.hub.start(asked.config, asked.taken))


async def _say(asked: ApiCall) -> Delivery:
    return await asked.server.hub.say(asked.config, asked.session, asked.taken.text)


async def _queue(asked: ApiCall) -> Delivery:
    return await asked.server.hub.queue(asked.config, asked.session, asked.taken.text)


async def _note(asked: ApiCall) -> Delivery:
    return await note(asked.session, asked.taken.text, config=asked.config)


async def _stop(asked: ApiCall) -> Delivery:
    return await stop(asked.session, config=asked.config)


async def _answer(asked: ApiCall) -> tuple[ApprovalGiven, ...]:
    return await asked.server.hub.answer(asked.config, asked.session, asked.taken.reply, asked.taken.call)


async def _go_back(asked: ApiCall) -> BackAt:
    return await asked.server.hub.go_back(asked.config, asked.session, asked.taken.to_seq, asked.taken.scope)


async def _fork(asked: ApiCall) -> Forked:
    return await fork(asked.config, asked.session, at=asked.taken.at, model=asked.taken.model)


async def _processes(asked: ApiCall) -> list[LiveProcess]:
    return await list_processes(asked.config, asked.taken.session)


async def _stop_process(asked: ApiCall) -> StoppedProcess:
    return await stop_process(asked.config, asked.session, asked.taken.handle)


async def _costs(asked: ApiCall) -> Costs:
    return await costs(asked.config, session=asked.taken.session, by=asked.taken.by, day=asked.taken.day)


async def _context(asked: ApiCall) -> WindowUse:
    return await window_use(asked.config, asked.session)


async def _artifacts(asked: ApiCall) -> SessionArtifacts:
    return await artifacts_of(asked.config, asked.session)


async def _goals(asked: ApiCall) -> list[SessionRow]:
    return await graded_goals(asked.config)


async def _profiles(asked: ApiCall) -> tuple[str, ...]:
    return tuple(each.name for each in list_profiles(asked.config))


async def _channels(asked: ApiCall) -> tuple[ChannelRow, ...]:
    return channels(asked.config)


async def _report(asked: ApiCall) -> Report:
    return await goal_report(asked.config, asked.session)


async def _start_goal(asked: ApiCall) -> Started:
    given: StartGoal = asked.taken
    rules = {"max_cost_usd": given.max_cost_usd, "max_iterations": given.max_iterations}
    options = GoalOptions(
        folder=absolute(given.workspace),
        profile=given.profile,
        engine=given.engine,
        model=given.model,
        mode=given.mode,
        checks=GoalChecks(commands=given.checks),
        notify=given.notify,
        rules={name: value for name, value in rules.items() if value is not None},
    )
    return Started(session=await begin_in_background(asked.config, given.text, options))


async def _order_goal(asked: ApiCall) -> Ordered:
    return await order_goal(asked.config, asked.session, asked.taken.order)


async def _doctor(asked: ApiCall) -> Diagnosis:
    return await diagnose(asked.config, asked.config.home)


async def _about(asked: ApiCall) -> About:
    return About(name=asked.device.name, role=asked.device.role, version=__version__)


async def _devices(asked: ApiCall) -> tuple[DeviceRow, ...]:
    return tuple(_row(each) for each in asked.server.access.devices())


async def _offer(asked: ApiCall) -> PairCode:
    taken: PairOffer = asked.taken
    code = asked.server.access.offer(taken.role, taken.name)
    squares = tuple[str, ...]()
    if taken.address:
        matrix = segno.make(f"{taken.address}/#pair={code}", micro=False).matrix
        squares = tuple("".join(map(str, line)) for line in matrix)
    return PairCode(code=code, role=taken.role, squares=squares, fingerprint=asked.server.fingerprint)


async def _revoke(asked: ApiCall) -> DeviceRow:
    return _row(asked.server.access.revoke(asked.taken.name))


def _row(device: Device) -> DeviceRow:
    return DeviceRow(id=device.id, name=device.name, role=device.role, paired_us=device.paired_us)


_S, _get, _post = SESSION, get_route, post_route
ROUTES: tuple[Route, ...] = (
    _get("/about", "Who asks, and which version answers.", _about, About),
    _get("/sessions", "All sessions, the most recent first.", _sessions, tuple[SessionRow, ...], Page),
    _get(_S, "One session.", _session, SessionRow),
    _get(f"{_S}/events", "A page of what is on record.", _events, EventPage, EventsAfter),
    _get(f"{_S}/view", "The same as the page shows it.", _view, ViewPage, EventsAfter),
    _get(f"{_S}/whole", "One event, nothing left out.", _whole, ViewRow, EventAsked),
    _get(f"{_S}/blob", "Content that an event names.", _blob, bytes, BlobAsked),
    _get(f"{_S}/changes", "What each step did to files.", _changes, tuple[StepChanges, ...], ChangesAsked),
    _get(f"{_S}/questions", "What a session asks.", _open_questions, tuple[ApprovalAsked, ...]),
    _get(f"{_S}/context", "What fills the context window.", _context, WindowUse),
    _get(f"{_S}/artifacts", "The files that a goal made.", _artifacts, SessionArtifacts),
    _get(f"{_S}/tasks", "Its graphs of tasks, and how far each is.", looks.tasks, tuple[TasksRun, ...]),
    _get(f"{_S}/now", "Its plan, and what it waits for.", looks.now, SessionNow),
    _get(f"{_S}/answered", "Who answered a question.", looks.answered, GivenAnswer | None, CallAskedFor),
    _get(f"{_S}/back", "What going back would change.", looks.back_preview, BackPreview, BackAsked),
    _get(f"{_S}/output", "What a process wrote.", looks.output, ProcessOutput, OutputAsked),
    _get(f"{_S}/kept", "Outputs that are kept, in versions.", looks.kept, tuple[KeptVersion, ...]),
    _get(f"{_S}/kept/content", "The content of one.", looks.kept_content, bytes, KeptAsked),
    _get(f"{_S}/kept/preview", "What it shows.", looks.kept_preview, ArtifactPreview, KeptAsked),
    _get(f"{_S}/kept/diff", "Two versions compared.", looks.kept_diff, looks.Diff, ArtifactsCompared),
    _get("/kept", "Kept outputs by words.", looks.kept_found, tuple[FoundArtifact, ...], ArtifactWords),
    _get(f"{_S}/report/page", "The report as a page shows it.", looks.report_page, looks.ReportPage),
    _get(f"{_S}/report", "The report of a goal, as facts.", _report, Report),
    _get("/questions", "All that waits for a person.", _questions, tuple[OpenQuestion, ...]),
    _get("/profiles", "Profiles that goals can have.", _profiles, tuple[str, ...]),
    _get("/channels", "Who can be told by name.", _channels, tuple[ChannelRow, ...]),
    _get("/push", "How this device can be told by push.", push_api.push_state, push_api.PushState),
    _get("/goals", "All goals, the most recent first.", _goals, list[SessionRow]),
    _get("/processes", "Live background processes.", _processes, list[LiveProcess], SessionAsked),
    _get("/cost", "What was spent.", _costs, Costs, CostAsked),
    _get("/doctor", "What works on this machine.", _doctor, Diagnosis),
    _get("/settings", "Settings and their origins.", looks.settings, tuple[SettingValue, ...], FolderAsked),
    _get("/devices", "Paired devices.", _devices, tuple[DeviceRow, ...], operation="devices"),
    _post("/sessions", "run", "Start a session.", _start, Started, StartSession),
    _post(f"{_S}/say", "say", "Say something: steers the turn, or starts one.", _say, Delivery, Said),
    _post(f"{_S}/queue", "say", "Say something when the running turn is over.", _queue, Delivery, Said),
    _post(f"{_S}/note", "note", "Tell something that needs no answer.", _note, Delivery, Said),
    _post(f"{_S}/stop", "stop", "Stop the running turn.", _stop, Delivery),
    _post(f"{_S}/answer", "approve", "Answer a question.", _answer, tuple[ApprovalGiven, ...], Answer),
    _post(
        f"{_S}/back",
        "rewind",
        "Go back to an earlier event, or undo the last turn.",
        _go_back,
        BackAt,
        GoBack,
    ),
    _post(f"{_S}/fork", "fork", "A new session from this one's history.", _fork, Forked, ForkAt),
    _post(
        f"{_S}/end-process", "stop", "End a background process.", _stop_process, StoppedProcess, ProcessNamed
    ),
    _post(
        f"{_S}/kept",
        "artifacts save",
        "Keep a file of the workspace.",
        looks.save_kept,
        KeptVersion,
        SaveFile,
    ),
    _post("/goals", "goal start", "Start a goal in the background.", _start_goal, Started, StartGoal),
    _post(f"{_S}/order", "goal stop", "Pause or stop a goal.", _order_goal, Ordered, Order),
    _post("/push", "push", "Tell this device by push.", push_api.subscribe, Nothing, push_api.Subscribe),
    _post("/push/end", "push", "No more of it.", push_api.unsubscribe, Nothing, push_api.Unsubscribe),
    _post("/devices/offer", "devices pair", "A code that pairs a device.", _offer, PairCode, PairOffer),
    _post("/devices/revoke", "devices revoke", "Revoke a device.", _revoke, DeviceRow, DeviceNamed),
    *work_api.ROUTES,
    *machine_api.ROUTES,
    *fleet_api.ROUTES,
)
