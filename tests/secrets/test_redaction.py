"""No text of any event is recorded with a secret in it, unless its type says that it must be."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

import mainspring
from mainspring.events import (
    STORED,
    ApprovalAsked,
    ArtifactsChanged,
    AssistantSaid,
    Blob,
    CallAsked,
    CallEnded,
    EngineEnded,
    Event,
    GuardTripped,
    ModelChosen,
    NoteAdded,
    Offer,
    PromptSet,
    Text,
    Thinking,
    ToolSpec,
    TurnEnded,
    Unknown,
    UserSaid,
)
from mainspring.events.base import Dropped, Encoded, Exempt, SealedBy
from mainspring.models.scripted import Script
from mainspring.secrets.redaction import expanded, redacted, redacted_arguments, redacted_blob
from mainspring.secrets.vault import PLACEHOLDER, Vault
from mainspring.session.session import runtime_of
from mainspring.settings import load_config
from mainspring.testing.server import HostedModelServer

KEY = "sk-proj-" + "Zx9Qw7Er5Ty3" * 3
TOKEN = "xyzzy-Plugh-4242-token"
SECRET = f"before {KEY} between {TOKEN} after"
VARIABLES = {"DEPLOY_TOKEN": TOKEN}
PLAIN = (int, float, bool, bytes, type(None))


def secrets_in(data: bytes) -> list[str]:
    return [secret for secret in (KEY, TOKEN) if secret.encode() in data]


def fields(hint: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every place in a type where text can be, and what is decided about it."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        marks = [mark for mark in hint.__metadata__ if isinstance(mark, Exempt | SealedBy | Encoded)]
        if marks:
            yield path, repr(marks[0])
        else:
            yield from fields(arguments[0], path)
    elif hint is str:
        yield path, "hidden"
    elif isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        for name, inner in get_type_hints(hint, include_extras=True).items():
            yield from fields(inner, f"{path}.{name}" if path else f"{hint.__name__}.{name}")
    elif origin in (Union, types.UnionType, tuple, list, dict):
        for inner in arguments:
            if inner is not Ellipsis:
                yield from fields(inner, path)
    elif hint is Any:
        yield path, "hidden"
    elif origin is not Literal and hint not in PLAIN:
        yield path, f"undecided: {hint}"


@pytest.mark.parametrize("kind", STORED, ids=lambda kind: kind.__name__)
def test_somebody_has_decided_about_secrets_in_every_field(kind: type[Event]) -> None:
    undecided = [f"{path} is {said}" for path, said in fields(kind, "") if said.startswith("undecided")]
    assert not undecided, (
        f"{'; '.join(undecided)}. A text is a `str`, or one of the types of `events/base.py`; what else can hold"
        " text must be taught to `approvals/redaction.py`."
    )
    try:
        redacted(msgspec.convert(msgspec.to_builtins(build(kind)), kind), Vault())
    except TypeError as error:
        pytest.fail(f"{kind.__name__} cannot be recorded: {error}")


def test_a_field_of_an_unknown_type_is_refused_instead_of_recorded() -> None:
    class Forgotten(Event, frozen=True):
        names: frozenset[str] = frozenset()

    with pytest.raises(TypeError, match=r"Forgotten\.names has the type .* nobody decided"):
        redacted(Forgotten(names=frozenset({KEY})), Vault())


def build(hint: Any, blob: Blob | None = None) -> Any:
    """A value of a type with a secret in every text that may hold one."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        marks = hint.__metadata__
        if any(isinstance(mark, Encoded) for mark in marks):
            again = f'"again": {json.dumps(SECRET)}, "again": 1'
            return f"{{{json.dumps(f'key {SECRET}')}: [{json.dumps(SECRET)}], {again}}}"
        if exempt := [mark for mark in marks if isinstance(mark, Exempt)]:
            return "" if "sealed" in exempt[0].reason else "x1"
        return build(arguments[0], blob)
    if hint is str:
        return SECRET
    if hint is Any:
        return {f"key {SECRET}": [SECRET, {"deep": SECRET}]}
    if hint is Blob:
        return blob or Blob(sha256="0" * 64, size=1)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        hints = get_type_hints(hint, include_extras=True)
        return hint(**{name: build(inner, blob) for name, inner in hints.items()})
    return build_plain(hint, origin, arguments, blob)


def build_plain(hint: Any, origin: Any, arguments: tuple[Any, ...], blob: Blob | None) -> Any:
    if origin is Literal:
        return arguments[0]
    if origin in (Union, types.UnionType):
        return build(next(each for each in arguments if each is not type(None)), blob)
    if origin is tuple:
        item = arguments[0]
        is_union = get_origin(item) in (Union, types.UnionType)
        return tuple(build(each, blob) for each in (get_args(item) if is_union else (item,)))
    if origin is dict:
        return {build(arguments[0], blob): build(arguments[1], blob)}
    return hint(1)


def test_a_secret_in_every_text_of_every_event_reaches_no_file(tmp_path: Path) -> None:
    home = tmp_path / "home"
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    config = load_config({"MAINSPRING_HOME": str(home), **VARIABLES})

    async def record() -> str:
        async with mainspring.open(workspace, model=scripted(tmp_path), mode="ask", config=config) as session:
            long = (SECRET + "\n") * 2000
            blobs = [
                await runtime_of(session).recorder.put_blob(long.encode(), "text/plain"),
                await runtime_of(session).recorder.put_blob(
                    json.dumps({SECRET: [SECRET]}).encode(), "application/json"
                ),
                await runtime_of(session).recorder.put_blob(f"<svg>{SECRET}</svg>".encode(), "image/svg+xml"),
            ]
            for number, kind in enumerate(STORED):
                event = build(kind, blobs[number % len(blobs)])
                if isinstance(event, ArtifactsChanged):
                    listing = await runtime_of(session).recorder.put_blob(
                        msgspec.json.encode(event.changes), "application/json"
                    )
                    event = msgspec.structs.replace(event, listing=listing)
                await runtime_of(session).record(event)
            await runtime_of(session).record(UserSaid(text=long))
            return session.id

    name = asyncio.run(record())
    written = exported(home, name, tmp_path)
    exempt = "\n".join(
        f"  {path}: {said}" for kind in STORED for path, said in fields(kind, "") if said != "hidden"
    )
    for path in [*home.rglob("*"), *written]:
        if path.is_file() and path.name != "secrets.json":
            found = secrets_in(path.read_bytes())
            assert not found, f"{path} holds {found}. Recorded as they are, or otherwise:\n{exempt}"
    (kept,) = home.rglob("secrets.json")
    assert secrets_in(kept.read_bytes()) == [KEY, TOKEN]


def scripted(folder: Path) -> str:
    script = folder / "script.json"
    script.write_text('{"replies": [{"text": "done"}]}')
    return f"scripted@{script}"


def exported(home: Path, session: str, folder: Path) -> list[Path]:
    """What the commands that read a session write, each in a file."""
    blobs = folder / "blobs"
    commands = {
        "jsonl": ("export", session, "--blobs", str(blobs)),
        "inline": ("export", session),
        "markdown": ("export", session, "--format", "markdown"),
        "html": ("export", session, "--format", "html"),
        "shown": ("show", "--all", session),
        "json": ("show", "--json", session),
        "sessions": ("sessions", "--json"),
        "diff": ("diff", session),
        "artifacts": ("artifacts", session),
        "goal-report": ("goal", "report", session),
    }
    environment = {"PATH": os.environ["PATH"], "MAINSPRING_HOME": str(home)}
    for name, arguments in commands.items():
        ran = subprocess.run(
            [sys.executable, "-m", "mainspring", *arguments],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=300,
            check=False,
        )
        (folder / f"{name}.out").write_bytes(ran.stdout + ran.stderr)
        assert ran.returncode == 0, ran.stderr.decode()
    found = [*folder.glob("*.out"), *blobs.iterdir()]
    assert len(found) >= len(commands) + 3
    return found


def test_no_request_to_a_model_holds_a_secret(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    config = load_config({"MAINSPRING_HOME": str(tmp_path / "home"), **VARIABLES})
    tool = ToolSpec(name="look", description=SECRET, parameters={"type": "object", "title": SECRET})
    asked = CallAsked(
        call="c1", name=f"tool_{TOKEN}", arguments=json.dumps({SECRET: SECRET}), provider_id=f"id_{KEY}"
    )
    said: list[Event] = [
        PromptSet(system=SECRET, tools=(tool,)),
        UserSaid(text=SECRET),
        AssistantSaid(step=1, parts=(Thinking(text=SECRET), Text(text=SECRET), asked), stop="calls"),
        CallEnded(call="c1", outcome="ok", output=SECRET),
        NoteAdded(text=SECRET, source=SECRET),
        GuardTripped(guard="repeats", message=SECRET),
    ]
    with HostedModelServer(msgspec.convert({"replies": [{"text": "x"}] * 3}, Script)) as server:

        async def talk() -> list[Event]:
            model = f"openai-compatible@{server.url}#test"
            async with mainspring.open(
                workspace, model=model, mode="ask", allow_unpriced=True, config=config
            ) as session:
                await runtime_of(session).record(*said)
                return [event async for event in session.run(SECRET)]

        assert isinstance(asyncio.run(talk())[-1], TurnEnded)
        requests = b"".join(seen.body for seen in server.seen)
    assert len(PLACEHOLDER.findall(requests.decode())) > 2 * len(said)
    assert not secrets_in(requests)


@pytest.mark.parametrize(
    "event",
    [
        EngineEnded(stderr=SECRET, unread=SECRET, reason=SECRET),
        ModelChosen(model=f"openai-compatible@http://me:{TOKEN}@host/v1#m", reason=SECRET),
        TurnEnded(turn=1, ending="failed", remedy=SECRET),
        GuardTripped(guard="repeats", message=SECRET),
        Unknown(kind="FromTomorrow", body=msgspec.Raw(json.dumps({"text": SECRET}).encode())),
    ],
    ids=lambda event: type(event).__name__,
)
def test_what_was_recorded_without_secrets_expands_to_what_it_was(event: Event) -> None:
    vault = Vault(VARIABLES)
    hidden = redacted(event, vault)
    assert not secrets_in(msgspec.json.encode(hidden))
    assert msgspec.json.decode(msgspec.json.encode(expanded(hidden, vault))) == msgspec.json.decode(
        msgspec.json.encode(event)
    )


@pytest.mark.parametrize("kind", STORED, ids=lambda kind: kind.__name__)
def test_every_event_expands_to_what_it_was(kind: type[Event]) -> None:
    vault, event = Vault(VARIABLES), build(kind)
    if kind is ApprovalAsked:
        event = msgspec.structs.replace(event, offers=())
    back = expanded(redacted(event, vault), vault)
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if any(isinstance(mark, Encoded) for mark in getattr(hint, "__metadata__", ())):
            assert json.loads(getattr(back, name)) == json.loads(getattr(event, name))
        elif not any(isinstance(mark, Encoded | Dropped) for mark in getattr(hint, "__metadata__", ())):
            assert decoded(getattr(back, name)) == decoded(getattr(event, name))


def decoded(value: object) -> object:
    """A value with the JSON in it decoded: which of two equal forms it has does not matter."""
    if isinstance(value, CallAsked):
        return msgspec.to_builtins(value) | {"arguments": json.loads(value.arguments)}
    if isinstance(value, tuple):
        return [decoded(each) for each in value]
    if isinstance(value, str) and value.startswith("{"):
        return json.loads(value)
    return value


def test_reasoning_that_its_provider_sealed_is_left_alone_and_offers_with_secrets_are_dropped() -> None:
    vault = Vault(VARIABLES)
    sealed = Thinking(text=SECRET, opaque=f"seal {TOKEN}", wire="anthropic")
    call = CallAsked(call="c1", name="look", opaque=f"seal {TOKEN}")
    said = AssistantSaid(step=1, parts=(sealed, call))
    assert redacted(said, vault) is said
    asked = ApprovalAsked(
        call="c1", tool="shell", arguments="{}", arguments_sha256="x", offers=(Offer(command="ls *"),)
    )
    assert redacted(asked, vault) is asked
    worse = msgspec.structs.replace(asked, offers=(Offer(command="ls *"), Offer(path=f"/{TOKEN}")))
    assert redacted(worse, vault).offers == ()


def test_blobs_that_are_text_are_hidden_and_others_are_left_alone() -> None:
    vault = Vault(VARIABLES)
    for media_type in ("text/plain", "text/csv; charset=utf-8", "application/json", "image/svg+xml"):
        assert not secrets_in(redacted_blob(SECRET.encode(), media_type, vault))
    picture = b"\x89PNG" + TOKEN.encode()
    assert redacted_blob(picture, "image/png", vault) == picture


def test_a_secret_that_is_a_number_is_hidden_too() -> None:
    vault = Vault({"AUTH_TOKEN": "1234567890123456"})
    assert "1234567890123456" not in redacted_arguments('{"x": 1234567890123456}', vault)
