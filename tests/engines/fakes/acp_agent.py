"""Speaks the Agent Client Protocol, with its own package. More words of a prompt: `permit` asks before it
works, `files` and `terminal` work through the client, `version` speaks another version of the protocol;
`touch-itself`, `touch-by-write` and `touch-by-terminal` make the file `wanted` if they may."""

import asyncio
import os
import sys
from pathlib import Path
from typing import cast

import acp
from acp import schema
from acting import PLOTS, child, ignore_asking, marker, put, work


class Told:
    """The format of a fake, over a connection. What it says is sent in order before the answer."""

    def __init__(self, connection: acp.Client, session: str) -> None:
        self.connection = connection
        self.session = session
        self.calls = 0
        self.updates: list = []

    def begin(self) -> None:
        pass

    def say(self, text: str) -> None:
        self.updates.append(acp.update_agent_thought_text("Hm."))
        self.updates.append(acp.update_agent_message_text(text))

    def call(self, command: str) -> None:
        self.calls += 1
        self.updates.append(
            acp.start_tool_call(
                f"t{self.calls}",
                command,
                kind="execute",
                status="in_progress",
                raw_input={"command": command},
            )
        )

    def result(self, output: str, code: int) -> None:
        status = "failed" if code else "completed"
        content = [acp.tool_content(acp.text_block(output))]
        self.updates.append(acp.update_tool_call(f"t{self.calls}", status=status, content=content))

    def end(self) -> None:
        pass

    async def flush(self) -> None:
        for update in self.updates:
            await self.connection.session_update(session_id=self.session, update=update)
        self.updates.clear()


class Agent:
    """The methods of `acp.Agent` that our client calls."""

    connection: acp.Client

    def on_connect(self, conn: acp.Client) -> None:
        self.connection = conn

    async def initialize(self, protocol_version: int, **kwargs: object) -> schema.InitializeResponse:
        offered = 9 if "--other-version" in sys.argv else acp.PROTOCOL_VERSION
        return schema.InitializeResponse(protocol_version=offered)

    async def new_session(self, cwd: str, **kwargs: object) -> schema.NewSessionResponse:
        return schema.NewSessionResponse(session_id="s1")

    async def cancel(self, session_id: str, **kwargs: object) -> None:
        Path("cancelled").touch()

    async def prompt(
        self, prompt: list[schema.TextContentBlock], session_id: str, **kwargs: object
    ) -> schema.PromptResponse:
        text = "".join(block.text for block in prompt)
        words = set(text[:2000].split())
        told = Told(self.connection, session_id)
        stop: schema.StopReason = "end_turn"
        if "permit" in words:
            stop = await self._permit(told)
        elif "withdraw" in words:
            stop = "cancelled"
        elif "files" in words:
            await self._files(told)
        elif "terminal" in words:
            await self._terminal(told)
        elif touch := next((word for word in words if word.startswith("touch-")), ""):
            await self._touch(told, touch)
        elif "hang" in words and "size" not in words:
            ignore_asking()
            child(marker(text))
            told.say("hanging here\nfor ever and ever")
            told.call("sleep")
            await told.flush()
            await asyncio.Event().wait()
        elif name := next((name for name in PLOTS if name in words), ""):
            told.say("About to.") if name == "half" else None
            await told.flush()
            try:
                PLOTS[name](told, text)
            except SystemExit:
                await told.flush()
                sys.stderr.flush()
                os._exit(3)
        else:
            work(told)
        await told.flush()
        usage = schema.Usage(total_tokens=1100, input_tokens=600, output_tokens=100, cached_read_tokens=400)
        return schema.PromptResponse(stop_reason=stop, usage=usage)

    async def _permit(self, told: Told) -> schema.StopReason:
        call = acp.start_tool_call(
            "p1", "rm old", kind="execute", status="pending", raw_input={"command": "rm old"}
        )
        await self.connection.session_update(session_id=told.session, update=call)
        options = [
            schema.PermissionOption(option_id="y", name="Yes", kind="allow_once"),
            schema.PermissionOption(option_id="n", name="No", kind="reject_once"),
        ]
        asked = schema.ToolCallUpdate(tool_call_id="p1", title="rm old")
        answer = await self.connection.request_permission(
            session_id=told.session, tool_call=asked, options=options
        )
        is_allowed = answer.outcome.outcome == "selected" and answer.outcome.option_id == "y"
        done = acp.update_tool_call("p1", status="completed" if is_allowed else "failed")
        await self.connection.session_update(session_id=told.session, update=done)
        told.say("allowed" if is_allowed else "refused")
        return "end_turn"

    async def _touch(self, told: Told, how: str) -> None:
        session = told.session
        try:
            if how == "touch-by-write":
                path = str(Path("wanted").absolute())
                await self.connection.write_text_file(session_id=session, path=path, content="")
            elif how == "touch-by-terminal":
                made = await self.connection.create_terminal(
                    session_id=session, command="touch", args=["wanted"]
                )
                await self.connection.wait_for_terminal_exit(session_id=session, terminal_id=made.terminal_id)
                shown = await self.connection.terminal_output(
                    session_id=session, terminal_id=made.terminal_id
                )
                told.say(shown.output)
            else:
                await self._touch_itself(told)
        except acp.RequestError as error:
            told.say(f"not made: {error}")

    async def _touch_itself(self, told: Told) -> None:
        asked = schema.ToolCallUpdate(
            tool_call_id="p1", title="touch", kind="execute", raw_input={"command": "touch wanted"}
        )
        options = [
            schema.PermissionOption(option_id="y", name="Yes", kind="allow_once"),
            schema.PermissionOption(option_id="n", name="No", kind="reject_once"),
        ]
        answer = await self.connection.request_permission(
            session_id=told.session, tool_call=asked, options=options
        )
        if answer.outcome.outcome == "selected" and answer.outcome.option_id == "y":
            Path("wanted").touch()
            done = acp.update_tool_call("p1", status="completed")
            await self.connection.session_update(session_id=told.session, update=done)

    async def _files(self, told: Told) -> None:
        here = str(Path.cwd())
        await self.connection.write_text_file(
            session_id=told.session, path=f"{here}/a.txt", content="1\n2\n3\n"
        )
        try:
            read = await self.connection.read_text_file(
                session_id=told.session, path=f"{here}/a.txt", line=2, limit=1
            )
        except acp.RequestError as error:
            told.say(f"not read: {error}")
            return
        try:
            await self.connection.write_text_file(session_id=told.session, path="/etc/no", content="x")
        except acp.RequestError as error:
            told.say(f"read {read.content.strip()}, and: {error}")

    async def _terminal(self, told: Told) -> None:
        made = await self.connection.create_terminal(session_id=told.session, command="echo out; exit 4")
        update = acp.start_tool_call("t9", "echo", kind="execute", status="in_progress")
        await self.connection.session_update(session_id=told.session, update=update)
        ended = await self.connection.wait_for_terminal_exit(
            session_id=told.session, terminal_id=made.terminal_id
        )
        content = [acp.tool_terminal_ref(made.terminal_id)]
        update = acp.update_tool_call("t9", status="completed", content=content)
        await self.connection.session_update(session_id=told.session, update=update)
        told.say(f"exit {ended.exit_code}")


if __name__ == "__main__":
    if "--noise" in sys.argv:
        put("this is no message")
    asyncio.run(acp.run_agent(cast("acp.Agent", Agent())))
