"""The server that the protocol's own conformance suite wants to see, behind our guard and on our transport:

    python tests/mcp/conformance_server.py        # prints its address
    node …/conformance/dist/index.js server --url ADDRESS --requirements 2026-07-28

The suite names every tool, prompt and resource here. It sends no token, so the path is public; Host and Origin
are checked all the same.
"""

from __future__ import annotations

import base64
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import PromptsListChanged, ToolsListChanged
from mcp_types.jsonrpc import MISSING_REQUIRED_CLIENT_CAPABILITY

from mainspring.app.operations.devices import Access
from mainspring.serve.mcp.run import PATH, http_app
from mainspring.serve.run import Listening, run_app
from mainspring.settings import load_config

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WAV = base64.b64encode(b"RIFF\x24\0\0\0WAVEfmt ").decode()
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def resource(uri: str, content: str, kind: str = "text/plain") -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": content}}


def called(*parts: dict[str, Any], is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult.model_validate({"content": parts, "isError": is_error})


def form(message: str, **fields: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def sampling(prompt: str, tokens: int = 100) -> dict[str, Any]:
    messages = [{"role": "user", "content": text(prompt)}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": tokens}}


WORD = {"type": "string"}
NAME = form("What is your name?", name=WORD)
ROOTS = {"method": "roots/list", "params": {}}
PLAIN: dict[str, list[dict[str, Any]]] = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}],
    "test_embedded_resource": [resource("test://embedded-resource", "This is an embedded resource content.")],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        IMAGE,
        resource("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
    ],
}
ASKED: dict[str, tuple[dict[str, Any], ...]] = {
    "test_input_required_result_elicitation": ({"user_name": NAME},),
    "test_streaming_elicitation": ({"user_name": NAME},),
    "test_input_required_result_sampling": (
        {"capital_question": sampling("What is the capital of France?")},
    ),
    "test_input_required_result_list_roots": ({"client_roots": ROOTS},),
    "test_input_required_result_request_state": ({"confirm": form("Go on?", ok={"type": "boolean"})},),
    "test_input_required_result_tampered_state": ({"confirm": form("Go on?", ok={"type": "boolean"})},),
    "test_input_required_result_multiple_inputs": (
        {"user_name": NAME, "greeting": sampling("Generate a greeting", 50), "client_roots": ROOTS},
    ),
    "test_input_required_result_multi_round": (
        {"step1": form("Step 1: What is your name?", name=WORD)},
        {"step2": form("Step 2: What is your favorite color?", color=WORD)},
    ),
    "test_input_required_result_capabilities": (
        {"capital_question": sampling("What is the capital of France?"), "user_name": NAME},
    ),
}
STATELESS = ("test_input_required_result_elicitation", "test_input_required_result_prompt")
ENUMS = {
    "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
    "titledSingle": {"type": "string", "oneOf": [{"const": "value1", "title": "First Option"}]},
    "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2"]}},
    "titledMulti": {"type": "array", "items": {"anyOf": [{"const": "value1", "title": "First Choice"}]}},
}
DEFAULTS = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
FORMS: dict[str, dict[str, Any]] = {
    "test_elicitation": {"username": WORD, "email": WORD},
    "test_elicitation_sep1034_defaults": DEFAULTS,
    "test_elicitation_sep1330_enums": ENUMS,
}
ARGUMENTS = {"test_sampling": "prompt", "test_elicitation": "message"}
OTHERS = (
    "test_tool_with_logging",
    "test_error_handling",
    "test_tool_with_progress",
    "test_sampling",
    "test_logging_tool",
    "test_missing_capability",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
)
BUS = InMemorySubscriptionBus()
TEXTS = {"test://static-text": "This is the content of the static text resource."}
PROMPTS: dict[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}

Context = ServerRequestContext[Any]


async def list_tools(_: Context, __: Any) -> types.ListToolsResult:
    def tool(name: str) -> types.Tool:
        fields = {ARGUMENTS[name]: WORD} if name in ARGUMENTS else {}
        return types.Tool(
            name=name,
            description=f"For the scenario {name}.",
            input_schema={"type": "object", "properties": fields},
        )

    return types.ListToolsResult(tools=[tool(name) for name in (*PLAIN, *ASKED, *FORMS, *OTHERS)])


async def call_tool(context: Context, asked: types.CallToolRequestParams) -> Any:
    given = asked.arguments or {}
    match asked.name:
        case name if name in PLAIN:
            return called(*PLAIN[name])
        case name if name in ASKED:
            return needed(context, name, ASKED[name], asked) or called(text(f"state-ok {name}: done"))
        case name if name in FORMS:
            schema = {"type": "object", "properties": FORMS[name], "required": list(FORMS[name])}
            answer = await context.session.elicit_form(given.get("message", "Please answer."), schema)
            return called(text(f"action={answer.action}, content={answer.content}"))
        case "test_tool_with_progress":
            for count in (0, 50, 100):
                await context.session.report_progress(count, 100)
        case "test_missing_capability":
            if not ((able := context.session.client_capabilities) and able.sampling is not None):
                data = {"requiredCapabilities": {"sampling": {}}}
                code = MISSING_REQUIRED_CLIENT_CAPABILITY
                raise MCPError(code, "The client cannot sample.", data)
        case "test_trigger_tool_change":
            await BUS.publish(ToolsListChanged())
        case "test_trigger_prompt_change":
            await BUS.publish(PromptsListChanged())
        case "test_tool_with_logging" | "test_logging_tool":
            for line in ("started", "processing data", "completed"):
                await context.session.send_log_message("info", f"Tool {line}")
        case "test_sampling":
            message = types.SamplingMessage(role="user", content=types.TextContent(text=given["prompt"]))
            answer = await context.session.create_message([message], max_tokens=100)
            return called(text(f"LLM response: {answer.content}"))
        case "test_error_handling":
            error = text("This tool intentionally returns an error for testing")
            return called(error, is_error=True)
        case name:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {name}")
    return called(text("done"))


def needed(
    context: Context, name: str, rounds: tuple[dict[str, Any], ...], asked: Any
) -> types.InputRequiredResult | None:
    """What is still to be asked for: the requests of this round, unless all are answered and it was the last."""
    answers = {key: value for key, value in (asked.input_responses or {}).items() if value is not None}
    number = int(asked.request_state or 0)
    if answers and all(key in answers for key in rounds[number]):
        number += 1
    if number == len(rounds):
        return None
    requests = rounds[number]
    if name == "test_input_required_result_capabilities":
        able = context.session.client_capabilities
        requests = {
            key: value
            for key, value in requests.items()
            if able and getattr(able, value["method"].partition("/")[0]) is not None
        }
    return types.InputRequiredResult.model_validate(
        {"inputRequests": requests, **({} if name in STATELESS else {"requestState": str(number)})}
    )


async def list_resources(_: Context, __: Any) -> types.ListResourcesResult:
    uris = (*TEXTS, "test://static-binary", "test://watched-resource")
    return types.ListResourcesResult(resources=[types.Resource(uri=uri, name=uri) for uri in uris])


async def list_templates(_: Context, __: Any) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(uri_template="test://template/{id}/data", name="template")
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(_: Context, asked: types.ReadResourceRequestParams) -> Any:
    uri = str(asked.uri)
    if uri in TEXTS:
        content = {"uri": uri, "mimeType": "text/plain", "text": TEXTS[uri]}
    elif uri == "test://static-binary":
        content = {"uri": uri, "mimeType": "image/png", "blob": PNG}
    elif uri.startswith("test://template/"):
        number = uri.split("/")[3]
        data = f'{{"id":"{number}","templateTest":true,"data":"Data for ID: {number}"}}'
        content = {"uri": uri, "mimeType": "application/json", "text": data}
    else:
        raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
    return types.ReadResourceResult.model_validate({"contents": [content]})


async def list_prompts(_: Context, __: Any) -> types.ListPromptsResult:
    return types.ListPromptsResult(
        prompts=[
            types.Prompt(
                name=name,
                description=f"For the scenario {name}.",
                arguments=[types.PromptArgument(name=each, required=True) for each in arguments],
            )
            for name, arguments in PROMPTS.items()
        ]
    )


async def get_prompt(context: Context, asked: types.GetPromptRequestParams) -> Any:
    given = asked.arguments or {}
    match asked.name:
        case "test_input_required_result_prompt":
            rounds = ({"user_context": form("What context should the prompt use?", context=WORD)},)
            if missing := needed(context, asked.name, rounds, asked):
                return missing
            parts = [text("With a context.")]
        case "test_prompt_with_arguments":
            parts = [text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")]
        case "test_prompt_with_embedded_resource":
            embedded = resource(given["resourceUri"], "Embedded resource content for testing.")
            parts = [embedded, text("Please process the embedded resource above.")]
        case "test_prompt_with_image":
            parts = [IMAGE, text("Please analyze the image above.")]
        case _:
            parts = [text("This is a simple prompt for testing.")]
    messages = [{"role": "user", "content": part} for part in parts]
    return types.GetPromptResult.model_validate({"messages": messages})


async def complete(_: Context, __: Any) -> types.CompleteResult:
    return types.CompleteResult(completion=types.Completion(values=[], total=0, has_more=False))


async def nothing(_: Context, __: Any) -> types.EmptyResult:
    return types.EmptyResult()


def fixture() -> Server[Any]:
    hints: Any = dict.fromkeys(
        ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"),
        CacheHint(ttl_ms=1000),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # logging is deprecated, and a scenario of 2025-11-25
        server: Server[Any] = Server(
            "fixture",
            version="1",
            cache_hints=hints,
            on_list_tools=list_tools,
            on_call_tool=call_tool,
            on_list_resources=list_resources,
            on_list_resource_templates=list_templates,
            on_read_resource=read_resource,
            on_subscribe_resource=nothing,
            on_unsubscribe_resource=nothing,
            on_subscriptions_listen=ListenHandler(BUS),
            on_list_prompts=list_prompts,
            on_get_prompt=get_prompt,
            on_completion=complete,
            on_set_logging_level=nothing,
        )
    boundary = RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="fixture")
    server.middleware.append(boundary)
    return server


def main(folder: Path) -> None:
    access = Access(load_config({"MAINSPRING_HOME": str(folder)}))

    def ready(address: str, _: Access) -> None:
        print(address + PATH, flush=True)

    run_app(
        lambda hosts: http_app(fixture(), access, hosts, public=(PATH,)),
        access,
        Listening(port=int(sys.argv[1]) if sys.argv[1:] else 0),
        ready,
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
