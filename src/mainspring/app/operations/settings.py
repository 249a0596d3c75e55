"""Settings for every face: each value with where it comes from, changing one, replacing a whole file, what is
wrong in one. A file that would not be valid is never written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from mainspring.app.modes import parse_mode
from mainspring.app.project_settings import MACHINE_ONLY, in_project, project_file
from mainspring.disk.files import locked, make_folder, write_private
from mainspring.disk.formats import parse_toml
from mainspring.disk.settings_errors import join_key, nearest_word, wrong_settings
from mainspring.disk.toml_edit import NotEditable, value_at, with_value, without_value
from mainspring.disk.toml_lines import line_of, parse_key
from mainspring.errors import ConfigError, MainspringError, UsageError
from mainspring.events import Limits
from mainspring.secrets.vault import Vault
from mainspring.settings import (
    GATEWAY_VARIABLE,
    Config,
    Settings,
    parse_settings,
    settings_content,
    settings_text,
    with_caps,
)

SettingOrigin = Literal["default", "user", "project", "environment", "flag"]
_Layer = tuple[SettingOrigin, Path, str, dict[str, Any]]
_MODEL_VARIABLE = "MAINSPRING_MODEL"
_AT_LINE = re.compile(r"at line (\d+)")


class SettingValue(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that is in force, and where it comes from. `source` is the file, with the line, or the
    variable. Secrets in the value are hidden."""

    key: str
    value: Any
    origin: SettingOrigin
    source: str = ""


class SettingProblem(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong in a settings file, and in which line; 0 when that is not known."""

    said: str
    line: int = 0
    key: str = ""


class SettingChange(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that was changed in a file; `before` and `after` are None when it was, or is, not set."""

    file: Path
    key: str
    before: Any = None
    after: Any = None


def settings_file(config: Config, project: Path | None = None) -> Path:
    """The file of the user, or that of the user for the project that a folder belongs to."""
    return config.folder / "config.toml" if project is None else project_file(config, project)


def list_settings(
    config: Config, folder: Path, flags: Mapping[str, object] | None = None
) -> tuple[SettingValue, ...]:
    """Every setting for work in a folder; `flags` are what the options of a command say instead."""
    files: list[_Layer] = [(origin, *_read(file)) for origin, file in _layers(config, folder)]
    replaced = _replaced(config, flags or {})
    hide = Vault(config.secrets).redact
    rows: list[SettingValue] = []
    for path, value in _leaves(in_project(config, folder).settings):
        key = _joined(path)
        if key in replaced:
            rows.append(replaced[key])
            continue
        origin, source = _origin(files, path, key)
        shown = json.loads(hide(json.dumps(value))) if isinstance(value, str | list) else value
        rows.append(SettingValue(key=key, value=shown, origin=origin, source=source))
    return tuple(rows)


def setting_names(config: Config) -> list[str]:
    """Every name that a setting has, also those that were chosen in tables."""
    return [_joined(path) for path, _ in _leaves(config.settings)]


def get_setting(
    config: Config, folder: Path, key: str, flags: Mapping[str, object] | None = None
) -> tuple[SettingValue, ...]:
    """One setting, or all in a table; `UsageError` with the nearest name when there is none."""
    wanted = _joined(_path(key))
    rows = list_settings(config, folder, flags)
    found = tuple(row for row in rows if row.key == wanted or row.key.startswith(f"{wanted}."))
    if not found:
        names = {row.key for row in rows} | {row.key.rpartition(".")[0] for row in rows}
        nearest = nearest_word(wanted, names)
        meant = f"Did you mean {nearest}?" if nearest else "See mainspring config list."
        raise UsageError(f"There is no setting {key!r}.", remedy=meant)
    return found


def set_setting(config: Config, key: str, text: str, *, project: Path | None = None) -> SettingChange:
    """Sets a value, written as in TOML; a text needs no quotes. What is wrong is not written."""
    path, file = _path(key), settings_file(config, project)
    with locked(file):
        before = settings_text(file)
        content = settings_content(before, file)
        problem: SettingProblem | None = None
        for value in _candidates(text):
            try:
                after = with_value(before, path, value)
            except (NotEditable, TypeError) as error:
                raise _not_editable(file) from error
            found = check_settings(after, file, is_project=project is not None)
            if not found:
                _write(file, after)
                return SettingChange(
                    file=file, key=_joined(path), before=_value_or_none(content, path), after=value
                )
            problem = problem or next((each for each in found if each.key == _joined(path)), found[0])
    raise ConfigError(
        f"{key} was not changed: {problem.said if problem else ''}",
        remedy="mainspring config list shows all.",
    )


def unset_setting(config: Config, key: str, *, project: Path | None = None) -> SettingChange:
    """Takes a value out of a file, so that the one below it counts."""
    path, file = _path(key), settings_file(config, project)
    with locked(file):
        before = settings_text(file)
        content = settings_content(before, file)
        try:
            after = without_value(before, path)
        except KeyError as error:
            raise UsageError(f"{file} does not set {key}.", remedy="mainspring config list") from error
        except NotEditable as error:
            raise _not_editable(file) from error
        _refuse(check_settings(after, file, is_project=project is not None), file)
        _write(file, after)
    return SettingChange(file=file, key=_joined(path), before=_value_or_none(content, path))


def replace_settings(config: Config, before: str, after: str, *, project: Path | None = None) -> Path:
    """Replaces the text of a file, which was `before` when somebody began to edit it."""
    file = settings_file(config, project)
    with locked(file):
        if settings_text(file) != before:
            raise ConfigError(
                f"{file} was changed by somebody else in the meantime.", remedy="Edit it again."
            )
        _refuse(check_settings(after, file, is_project=project is not None), file)
        _write(file, after)
    return file


def check_settings(text: str, file: Path, *, is_project: bool = False) -> tuple[SettingProblem, ...]:
    """All that is wrong in the text of a settings file, in the order of its lines."""
    try:
        content = settings_content(text, file)
    except MainspringError as error:
        said = error.message.removeprefix(f"{file} is not valid: ")
        found = _AT_LINE.search(said)  # Python 3.14 has it as a number
        return (SettingProblem(said=said, line=int(found[1]) if found else 0),)
    problems = [_problem(text, wrong.key, wrong.said) for wrong in wrong_settings(content, Settings)]
    if is_project:
        only = (name for name in MACHINE_ONLY if name in content)
        problems += [_problem(text, name, f"[{name}] is for all projects together.") for name in only]
    if not problems:
        problems += _meaning_problems(content, file, text)
    return tuple(sorted(problems, key=lambda each: each.line))


def _meaning_problems(content: dict[str, Any], file: Path, text: str) -> Iterator[SettingProblem]:
    """What has the right type, and means nothing all the same."""
    try:
        settings = parse_settings(content, file, text)
        with_caps(Limits(), settings.caps)
    except MainspringError as error:
        said = error.message.removeprefix(f"{file} is not valid: ").partition(" It stands in line ")[0]
        key = said.split("`")[1] if said.startswith("`") else "caps"
        yield _problem(text, key, said)
        return
    try:
        parse_mode(settings.mode or "auto")
    except UsageError as error:
        yield _problem(text, "mode", str(error))


def _problem(text: str, key: str, said: str) -> SettingProblem:
    return SettingProblem(said=said, line=line_of(text, key) or 0, key=key)


def _layers(config: Config, folder: Path) -> Iterator[tuple[SettingOrigin, Path]]:
    """What counts first comes first."""
    yield "project", settings_file(config, folder)
    yield "user", settings_file(config)


def _read(file: Path) -> tuple[Path, str, dict[str, Any]]:
    try:
        text = settings_text(file)
        return file, text, settings_content(text, file)
    except MainspringError:  # whoever loaded the settings said so
        return file, "", {}


def _replaced(config: Config, flags: Mapping[str, object]) -> dict[str, SettingValue]:
    rows: dict[str, SettingValue] = {}
    if named := config.variable(_MODEL_VARIABLE):
        rows["model"] = SettingValue(key="model", value=named, origin="environment", source=_MODEL_VARIABLE)
    if config.settings.gateway.url and not config.gateway.url:
        rows["gateway.url"] = SettingValue(
            key="gateway.url", value="", origin="environment", source=GATEWAY_VARIABLE
        )
    return rows | {key: SettingValue(key=key, value=value, origin="flag") for key, value in flags.items()}


def _origin(files: Sequence[_Layer], path: Sequence[str], key: str) -> tuple[SettingOrigin, str]:
    for origin, file, text, content in files:
        if _is_set(content, path):
            return origin, f"{file}:{line_of(text, key) or 0}"
    return "default", ""


def _is_set(content: dict[str, Any], path: Sequence[str]) -> bool:
    try:
        value_at(content, path)
    except KeyError:
        return False
    return True


def _value_or_none(content: dict[str, Any], path: Sequence[str]) -> Any:
    return value_at(content, path) if _is_set(content, path) else None


def _leaves(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """Every value that is no table, also those that have their default, as JSON would have them."""
    if isinstance(value, msgspec.Struct):
        for field in msgspec.structs.fields(value):
            yield from _leaves(getattr(value, field.name), (*path, field.encode_name))
    elif isinstance(value, dict) and value:
        for key, inner in cast("dict[str, object]", value).items():
            yield from _leaves(inner, (*path, key))
    else:
        yield path, msgspec.to_builtins(value)


def _joined(path: Sequence[str]) -> str:
    key = ""
    for part in path:
        key = join_key(key, part)
    return key


def _path(key: str) -> tuple[str, ...]:
    try:
        return parse_key(key)
    except ValueError as error:
        raise UsageError(
            f"{key!r} is not the name of a setting.",
            remedy='Write it like caps.turn.usd, or models."NAME".window.',
        ) from error


def _candidates(text: str) -> Iterator[object]:
    """What a person may have meant: a value of TOML, else a text without its quotes."""
    with suppress(ValueError):
        yield parse_toml(f"value = {text}")["value"]
    yield text


def _write(file: Path, text: str) -> None:
    make_folder(file.parent)
    write_private(file.resolve(), text.encode())  # a link into somebody's dotfiles stays one


def _refuse(problems: Sequence[SettingProblem], file: Path) -> None:
    if problems:
        first = problems[0]
        where = f", line {first.line}," if first.line else ""
        raise ConfigError(f"{file}{where} is not valid: {first.said}", remedy="Nothing was written.")


def _not_editable(file: Path) -> ConfigError:
    return ConfigError(
        f"{file} is laid out in a way that cannot be changed from here.", remedy="mainspring config edit"
    )
