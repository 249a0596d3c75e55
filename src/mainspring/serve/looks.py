"""What the page asks for besides events: outputs, previews, going back, the report, settings. Only reads."""

from __future__ import annotations

import msgspec

from mainspring.app.operations.kept_artifacts import (
    FoundArtifact,
    artifact_content,
    diff_artifact,
    kept_artifacts,
    save_file,
    search_artifacts,
)
from mainspring.app.operations.processes import ProcessOutput, process_output
from mainspring.app.operations.reports import goal_report, report_markdown
from mainspring.app.operations.settings import SettingValue, list_settings
from mainspring.app.operations.standing import GivenAnswer, SessionNow, answer_given, session_now
from mainspring.app.operations.tasks import TasksRun, list_tasks
from mainspring.app.operations.timeline import BackPreview, preview_back
from mainspring.evidence.kept import KeptVersion
from mainspring.serve.hub import absolute
from mainspring.serve.markdown_tree import Node, tree_of
from mainspring.serve.previews import ArtifactPreview, artifact_preview
from mainspring.serve.routes import ApiCall


class ReportPage(msgspec.Struct, frozen=True, kw_only=True):
    """The report of a goal as a tree of known nodes."""

    tree: list[Node]


class Diff(msgspec.Struct, frozen=True, kw_only=True):
    lines: tuple[str, ...]


async def kept(asked: ApiCall) -> tuple[KeptVersion, ...]:
    return await kept_artifacts(asked.config, asked.session)


async def kept_content(asked: ApiCall) -> bytes:
    found = await artifact_content(asked.config, asked.session, asked.taken.name, asked.taken.version)
    return found.data


async def kept_preview(asked: ApiCall) -> ArtifactPreview:
    found = await artifact_content(asked.config, asked.session, asked.taken.name, asked.taken.version)
    return await artifact_preview(asked.config, found.version, found.data)


async def kept_diff(asked: ApiCall) -> Diff:
    taken = asked.taken
    return Diff(lines=await diff_artifact(asked.config, asked.session, taken.name, taken.old, taken.new))


async def kept_found(asked: ApiCall) -> tuple[FoundArtifact, ...]:
    return await search_artifacts(asked.config, asked.taken.words, asked.taken.session)


async def save_kept(asked: ApiCall) -> KeptVersion:
    taken = asked.taken
    return await save_file(asked.config, asked.session, taken.path, name=taken.name, note=taken.note)


async def tasks(asked: ApiCall) -> tuple[TasksRun, ...]:
    return await list_tasks(asked.config, asked.session)


async def now(asked: ApiCall) -> SessionNow:
    return await session_now(asked.config, asked.session)


async def answered(asked: ApiCall) -> GivenAnswer | None:
    return await answer_given(asked.config, asked.session, asked.taken.call)


async def back_preview(asked: ApiCall) -> BackPreview:
    return await preview_back(asked.config, asked.session, asked.taken.to_seq)


async def output(asked: ApiCall) -> ProcessOutput:
    return await process_output(asked.config, asked.session, asked.taken.handle, asked.taken.since)


async def report_page(asked: ApiCall) -> ReportPage:
    return ReportPage(tree=tree_of(report_markdown(await goal_report(asked.config, asked.session))))


async def settings(asked: ApiCall) -> tuple[SettingValue, ...]:
    folder = absolute(asked.taken.folder) if asked.taken.folder else asked.config.home
    return list_settings(asked.config, folder)
