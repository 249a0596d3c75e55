"""The client as we call it. Nothing is called that it did not say it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from acp import schema
from acp.connection import Connection
from acp.meta import CLIENT_METHODS
from acp.utils import serialize_params


class AcpClient:
    """Raises `ConnectionError` once the client is gone."""

    def __init__(self, connection: Connection, hello: schema.InitializeRequest) -> None:
        self._connection = connection
        able = hello.client_capabilities or schema.ClientCapabilities()
        meta = able.field_meta or {}
        self.name = hello.client_info.name if hello.client_info else ""
        self.can_read_files = bool(able.fs and able.fs.read_text_file)
        self.can_fill_forms = bool(able.elicitation and able.elicitation.form)
        self.has_terminals = meta.get("terminal_output") is True

    async def update(self, session: str, update: Any) -> None:
        told = schema.SessionNotification(session_id=session, update=update)
        await self._connection.send_notification(CLIENT_METHODS["session_update"], serialize_params(told))

    async def ask_permission(
        self, session: str, call: schema.ToolCallUpdate, options: list[schema.PermissionOption]
    ) -> str:
        """The id of the option that a person chose; empty when they chose none."""
        request = schema.RequestPermissionRequest(session_id=session, tool_call=call, options=options)
        method = CLIENT_METHODS["session_request_permission"]
        answer: Any = await self._connection.send_request(method, serialize_params(request))
        outcome = schema.RequestPermissionResponse.model_validate(answer).outcome
        return outcome.option_id if isinstance(outcome, schema.AllowedOutcome) else ""

    async def read_file(self, session: str, path: Path) -> str:
        """A file as the editor has it, saved or not."""
        request = schema.ReadTextFileRequest(session_id=session, path=str(path))
        method = CLIENT_METHODS["fs_read_text_file"]
        answer: Any = await self._connection.send_request(method, serialize_params(request))
        return schema.ReadTextFileResponse.model_validate(answer).content
