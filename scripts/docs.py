"""Writes the pages that come from the code: `make docs-pages`.

`docs/configuration.md` from the structs that settings files are read into, `docs/api.md` from the names in
`mainspring.__all__`, and `docs/index.md` from the README. A test compares them with the
code.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

import mainspring
from mainspring.approvals.rules import Rule
from mainspring.goals.profiles import Profile
from mainspring.models.providers import PROVIDERS
from mainspring.settings import Settings

ROOT = Path(__file__).parent.parent
SOURCE = "This page is made from the code by `make docs-pages`."
VARIABLES = {
    "MAINSPRING_HOME": "The folder for data and settings, instead of the usual two.",
    "MAINSPRING_MODEL": "The default model; comes before `model` of `config.toml`.",
    "MAINSPRING_GATEWAY": "`0` asks providers directly, whatever `[gateway]` says, as `--no-gateway` does.",
    "MAINSPRING_LOG": "Where a log without secrets is appended; `1` is `debug.log` in the data folder, `0`"
    " none; see [troubleshooting](troubleshooting.md).",
    "OPENAI_BASE_URL": "An OpenAI-compatible server; plain names of models are asked for there.",
    "HTTPS_PROXY": "The proxy for https; also HTTP_PROXY and ALL_PROXY, in small letters too.",
    "NO_PROXY": "Hosts that are asked without the proxy.",
    "SSL_CERT_FILE": "Further certificates to trust; also SSL_CERT_DIR.",
    "PATH": "Where programs are found; `mainspring doctor` names folders that the sandbox does not show.",
    "HOME": "Whose secrets are hidden from commands; without it, the home folder of the account.",
    "NO_COLOR": "Set to anything, a chat uses no colours.",
    "XDG_CACHE_HOME": "Where `mainspring farm` keeps worktrees while it works; `~/.cache` by default.",
    "COLORFGBG": "Which colours the terminal has, as some set it (`0;15`): a chat chooses its theme by it.",
    "PAGER": "What a chat shows long texts with; by default `less -R`.",
    "TERM": "The kind of terminal that a chat runs on.",
    "DISPLAY": "With it, or `WAYLAND_DISPLAY`, `mainspring login` on Linux opens a browser.",
    "WAYLAND_DISPLAY": "As `DISPLAY`.",
    "SSH_CONNECTION": "With it, `mainspring login` on macOS and Windows opens no browser.",
    "TZ": "The time zone of schedules, instead of the machine's.",
    "XDG_DATA_HOME": "On Linux: holds the data folder, `mainspring` in it.",
    "XDG_CONFIG_HOME": "On Linux: holds the settings folder, and systemd's units.",
    "CODEX_HOME": "The state folder of Codex.",
    "CLAUDE_CONFIG_DIR": "The state folder of Claude Code.",
}
WHERE = """\
Settings are read from files of the user and from the environment, never from a repository; only
`.mainspring/approvals.toml` of a project counts, and it can only tighten what is allowed. Files lie in the settings
folder (`~/.config/mainspring` on Linux, or `MAINSPRING_HOME`). Each may begin with `format_version = 1`.

`mainspring config` lists what is set, each with where it comes from: the default, your file, your file for this project, the
environment, an option (`--all` also what has its default; `--json`). `config get KEY`, `config set KEY VALUE` and `config unset
KEY` work on one value, and leave comments and order of the file alone; `config edit` opens `$VISUAL` or `$EDITOR`; `config
validate` says what is wrong, with line numbers. What is not valid is never written. With `--project` they work on your settings
for the project of this folder, which lie in the settings folder (`project-settings/`) and come before `config.toml`;
`[audit]`, `[daemon]`, `[journal]`, `[login]`, `[policy]`, `[retention]`, `[store]` and `[telemetry]` are for all projects together.
"""  # noqa: E501
TABLE = "| key | type | default | |\n|---|---|---|---|\n"


def main() -> None:
    for name, text in pages().items():
        (ROOT / "docs" / name).write_text(text, "utf-8")


def pages() -> dict[str, str]:
    return {"index.md": index_page(), "configuration.md": configuration_page(), "api.md": api_page()}


def index_page() -> str:
    """The README as a page among the others; files outside `docs/` are named without a link."""
    text = (ROOT / "README.md").read_text("utf-8").replace("](docs/", "](")
    return re.sub(r"\[([\w.]+)\]\((?:AGENTS|CHANGELOG|SECURITY)\.md\)", r"`\1`", text)


def configuration_page() -> str:
    parts = [
        f"# Configuration\n\n{SOURCE} A key that is not in it is refused, with the nearest one that is.\n",
        WHERE,
        "## config.toml\n",
        *tables(Settings),
        "## approvals.toml\n",
        "Each rule is one `[[rule]]`; see [approvals](approvals.md).\n",
        *tables(Rule, "[rule]"),
        "## profiles/NAME.toml\n",
        "A kind of loop of your own; see [goals](goals.md).\n",
        *tables(Profile, of="Profile: "),
        "## Environment\n",
        "| variable | |\n|---|---|\n"
        + "".join(f"| `{name}` | {said} |\n" for name, said in variables().items()),
    ]
    return "\n".join(parts)


def variables() -> dict[str, str]:
    found = dict(VARIABLES)
    for provider in PROVIDERS:
        for name in provider.key_variables:
            found.setdefault(name, f"The key for {provider.title}.")
    return found


def tables(
    kind: type[msgspec.Struct], *paths: str, above: tuple[type, ...] = (), of: str = ""
) -> Iterator[str]:
    """The table of a struct, and then of every struct that it holds, but for those `above`."""
    said, hints = field_docs(kind), get_type_hints(kind, include_extras=True)
    if paths:
        yield f"### {of}{', '.join(f'`[{path}]`' for path in paths)}\n"
        yield f"{one_line(inspect.getdoc(kind) or '')}\n"
    rows, inner = TABLE, dict[type[msgspec.Struct], list[str]]()
    for field in msgspec.structs.fields(kind):
        if field.encode_name not in said:
            raise SystemExit(f"{kind.__name__}.{field.name} has no description: write one below the field")
        hint = hints[field.name]
        held = struct_in(hint)
        if held is not None and held not in (kind, *above):
            parents = [path for path in paths if not path.startswith("[")] or [""]
            inner.setdefault(held, []).extend(
                table_name(parent, field.encode_name, hint) for parent in parents
            )
        shown = "" if held is not None else default_of(field)
        rows += f"| `{field.encode_name}` | {type_of(hint)} | {shown} | {said[field.encode_name]} |\n"
    yield rows
    for held, names in inner.items():
        yield from tables(held, *names, above=(kind, *above), of=of)


def table_name(parent: str, name: str, hint: Any) -> str:
    """As it stands in brackets in a file; `NAME` is one that the user chooses."""
    name = f"{parent}.{name}" if parent else name
    return f"{name}.NAME" if get_origin(hint) is dict else f"[{name}]" if get_origin(hint) is tuple else name


def field_docs(kind: type) -> dict[str, str]:
    """What stands below each field, as in the source of the struct."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        text = text_of(below)
        if text and isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            found[field.target.id] = one_line(text)
    return found


def text_of(node: ast.stmt) -> str:
    """The text that a statement consists of, or nothing."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return node.value.value if isinstance(node.value.value, str) else ""
    return ""


def struct_in(hint: Any) -> type[msgspec.Struct] | None:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return hint
    return next((found for each in get_args(hint) if (found := struct_in(each))), None)


def type_of(hint: Any) -> str:
    """A type in words."""
    origin, arguments = get_origin(hint), get_args(hint)
    names = {str: "text", int: "whole number", float: "number", bool: "true or false"}
    if hint in names:
        return names[hint]
    if origin is Annotated:
        bounds = [
            each for mark in arguments[1:] if isinstance(mark, msgspec.Meta) for each in bounds_of(mark)
        ]
        return ", ".join((type_of(arguments[0]), *bounds))
    if origin is Literal:
        return ", ".join(f"`{each}`" for each in arguments if each)
    if origin in (Union, UnionType):
        return " or ".join(type_of(each) for each in arguments if each is not type(None))
    if origin is tuple:
        return "array of tables" if struct_in(hint) else f"list of {type_of(arguments[0])}"
    if origin is dict and arguments[1] is Any:
        return "table"
    if origin is dict:
        return f"table of {type_of(arguments[1])}"
    if struct_in(hint):
        return "table"
    raise SystemExit(f"no words for the type {hint}")


def bounds_of(meta: msgspec.Meta) -> Iterator[str]:
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    yield from (
        f"{sign} {value:,.12g}" for key, sign in signs.items() if (value := getattr(meta, key)) is not None
    )


def default_of(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    if value is None or value in ("", (), {}):
        return ""
    return f"`{msgspec.json.encode(value).decode()}`"


def api_page() -> str:
    parts = [
        f"# Python API\n\n{SOURCE} What is not on it may change at any time.\n",
        "[From Python](python.md) has examples.\n",
    ]
    for name in sorted(mainspring.__all__, key=str.lower):
        if name != "__version__":
            parts += entry(f"mainspring.{name}", getattr(mainspring, name))
    return "\n".join(parts)


def entry(name: str, value: Any) -> Iterator[str]:
    yield f"## `{name}`\n"
    if isinstance(value, type):
        yield from class_entry(name, value)
    elif callable(value):
        yield f"```python\n{signature(name.rpartition('.')[2], value)}\n```\n"
        yield f"{markdown(value)}\n"
    elif inspect.ismodule(value):
        yield f"{markdown(value)}\n"
        for each in value.__all__ if value is mainspring.testing else ():
            yield from entry(f"{name}.{each}", getattr(value, each))
    else:
        yield f"{one_line(str(value))}\n"


def class_entry(name: str, kind: type) -> Iterator[str]:
    is_struct = issubclass(kind, msgspec.Struct)
    is_made = name.startswith("mainspring.testing.") and "__init__" in vars(kind)
    if is_struct or is_made or issubclass(kind, BaseException):
        yield f"```python\n{signature(name.rpartition('.')[2], kind)}\n```\n"
    yield f"{markdown(kind)}\n"
    members = [
        (attribute, member)
        for attribute, member in vars(kind).items()
        if not attribute.startswith("_")
        and (isinstance(member, property) or inspect.isfunction(member))
        and inspect.getdoc(member)
    ]
    for attribute, member in members:
        shown = attribute if isinstance(member, property) else signature(attribute, member)
        yield f"```python\n{shown}\n```\n"
        yield f"{markdown(member)}\n"


def signature(name: str, value: Any) -> str:
    found = inspect.signature(value)
    kept = [each for each in found.parameters.values() if each.name != "self"]
    shown = [parameter(each) for each in kept]
    is_named = [each.kind is inspect.Parameter.KEYWORD_ONLY for each in kept]
    if any(is_named) and not any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in kept):
        shown.insert(is_named.index(True), "*")
    start = "async def " if inspect.iscoroutinefunction(value) else ""
    gives = found.return_annotation
    end = ")" if isinstance(value, type) or gives is inspect.Signature.empty else f") -> {annotation(gives)}"
    line = f"{start}{name}({', '.join(shown)}{end}"
    return line if len(line) <= 100 else f"{start}{name}(\n" + "".join(f"    {e},\n" for e in shown) + end


def parameter(found: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    text = f"{stars.get(found.kind, '')}{found.name}"
    if found.annotation is not inspect.Parameter.empty:
        text += f": {annotation(found.annotation)}"
    return text if found.default is inspect.Parameter.empty else f"{text} = {default(found.default)}"


def annotation(hint: Any) -> str:
    """As it is written, without the modules."""
    text = hint if isinstance(hint, str) else hint.__name__ if isinstance(hint, type) else str(hint)
    return re.sub(r"~|\b([a-z_]+\.)+(?=[A-Z])", "", text)


def default(value: Any) -> str:
    if isinstance(value, msgspec.Struct):
        return f"{type(value).__name__}()" if value == type(value)() else "..."
    is_plain = value is None or isinstance(value, str | int | float) or value in ((), [], {})
    return repr(value) if is_plain else "..."


def markdown(value: Any) -> str:
    return inspect.getdoc(value) or ""


def one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    main()
