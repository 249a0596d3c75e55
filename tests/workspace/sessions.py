"""Sessions with a scripted model and real files, for tests."""

import asyncio
from pathlib import Path

import msgspec
from click.testing import CliRunner

import mainspring
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.cli.commands import mainspring as commands
from mainspring.context.work import UNASSISTED
from mainspring.errors import MainspringError
from mainspring.events import Event, Recorded
from mainspring.models.scripted import Script, ScriptedCall, ScriptedModel, ScriptedReply
from mainspring.settings import load_config


def shell(*lines: str) -> ScriptedReply:
    """A reply that runs these command lines, side by side."""
    return ScriptedReply(
        calls=tuple(ScriptedCall(name="shell", arguments={"command": line}) for line in lines)
    )


def say(text: str) -> ScriptedReply:
    return ScriptedReply(text=text)


class World:
    """A home and a workspace. The model's script is a file, so that commands find it by the journal."""

    def __init__(self, folder: Path, *replies: ScriptedReply) -> None:
        self.home, self.root = folder / "home", folder / "workspace"
        self.root.mkdir(exist_ok=True)
        self.script = folder / "script.json"
        self.write_script(*replies)
        config = load_config(
            {"MAINSPRING_HOME": str(self.home), "PATH": "/usr/bin:/bin", "HOME": str(folder)}
        )
        settings = msgspec.structs.replace(config.settings, work=UNASSISTED)
        self.config = msgspec.structs.replace(config, settings=settings)
        self.store = SqliteSessions(self.home)
        self.session = ""

    @property
    def model(self) -> str:
        return f"scripted@{self.script}"

    def write_script(self, *replies: ScriptedReply) -> None:
        self.script.write_bytes(msgspec.json.encode({"replies": replies}))

    def turn(self, text: str) -> list[Event]:
        return asyncio.run(self._turn(text))

    async def _turn(self, text: str) -> list[Event]:
        async with self.open() as session:
            self.session = session.id
            return [event async for event in session.run(text)]

    def open(self):
        return mainspring.open(
            self.root,
            session=self.session,
            model=self.model,
            mode="yolo",
            limits=mainspring.Limits(max_cost_usd=1),
            sandbox="none",
            config=self.config,
        )

    def journal(self) -> list[Recorded]:
        file = self.store.shelf.file(self.session)
        try:
            return file.read(limit=100_000)
        finally:
            file.close()

    def seq_of(self, kind: type[Event], number: int = 0) -> int:
        return [item.seq for item in self.journal() if isinstance(item.event, kind)][number]

    def sent(self) -> list[dict]:
        """What the model would be sent now."""

        async def project() -> list[dict]:
            from mainspring.context.history import load_history

            reader = await self.store.read(self.session)
            try:
                history = await load_history(reader, ScriptedModel(Script(replies=())).encode)
                return [msgspec.json.decode(message) for message in await history.messages(reader.get)]
            finally:
                await reader.close()

        return asyncio.run(project())

    def command(self, *arguments: str, code: int = 0) -> str:
        """Runs a command in this process and gives what it printed; `code` is the exit code it must have."""
        runner = CliRunner()
        environment = {
            "MAINSPRING_HOME": str(self.home),
            "MAINSPRING_MODEL": self.model,
            "HOME": str(self.home.parent),
            "XDG_CONFIG_HOME": str(self.home.parent),
        }
        done = runner.invoke(commands, arguments, env=environment)
        error = done.exception
        found = error.exit_code if isinstance(error, MainspringError) else done.exit_code
        if error is not None and not isinstance(error, MainspringError | SystemExit):
            raise error
        output = done.output + (str(error) if isinstance(error, MainspringError) else "")
        assert found == code, output
        return output
