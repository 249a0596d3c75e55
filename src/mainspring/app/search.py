"""The web search of a session, where `[search]` names a backend: what speaks with it is loaded then."""

from __future__ import annotations

from importlib import import_module

from mainspring.app.models import price_book
from mainspring.errors import ConfigError, MainspringError
from mainspring.events import Usage
from mainspring.models import Price
from mainspring.models.connect import asked_at, key, resolve
from mainspring.models.web_search import SearchRequest, brave, provider_search, searxng, template
from mainspring.secrets.variables import fill_variables
from mainspring.settings import Config
from mainspring.tools import Tool

_USUAL_USD = {"brave": 0.005, "provider": 0.035}
_MOST_TOKENS = Usage(input_tokens=40_000, output_tokens=2_048)
"""What a search of a provider takes at most, estimated: its results are read by its model."""


def search_tools(config: Config) -> tuple[list[Tool], tuple[str, ...]]:
    """The tool, and no warning; or none, and a sentence that says why."""
    tools = import_module("mainspring.tools.web_search")
    settings = config.settings.search
    try:
        request, price = _request(config)
    except MainspringError as error:
        return [], (f"Web search is not offered: {error.message} {error.remedy}".strip(),)
    usual = _USUAL_USD.get(settings.backend, 0.0)
    each_usd = usual if settings.cost_usd is None else settings.cost_usd
    is_priced = settings.backend != "provider" or price is not None
    tokens_usd = price.cost_usd(_MOST_TOKENS) if price else 0.0
    cost = tools.SearchCost(each_usd, price, each_usd + tokens_usd if is_priced else None)
    return [tools.web_search_tool(request, config.environment, cost, most=settings.results)], ()


def _request(config: Config) -> tuple[SearchRequest, Price | None]:
    settings = config.settings.search
    match settings.backend:
        case "searxng":
            return searxng(_address(settings.url)), None
        case "brave":
            if not (found := config.variable(settings.key_variable)):
                raise ConfigError("There is no key for Brave.", remedy=f"Set {settings.key_variable}.")
            return brave(found, settings.results, settings.url), None
        case "url":
            if "{query}" not in settings.url:
                raise ConfigError("`url` under [search] has no {query} in it.", remedy="Write where it goes.")
            words, missing = fill_variables({"headers": settings.headers}, config.environment)
            if missing:
                raise ConfigError(f"The variable {', '.join(missing)} is not set.")
            return template(_address(settings.url), words["headers"]), None
        case _:
            return _of_provider(config)


def _of_provider(config: Config) -> tuple[SearchRequest, Price | None]:
    name = config.settings.search.model or config.model
    known = resolve(name, config.environment)
    spec = asked_at(known, config.key_environment, config.gateway)
    found = provider_search(spec.provider.wire, spec.base_url, spec.model, key(spec, config.key_environment))
    if found is None:
        raise ConfigError(
            f"{name or 'The model'} has no search of its own.",
            remedy="Set `model` under [search] to one of Anthropic, OpenAI or Gemini.",
        )
    return found, price_book(config).find(known, name).price


def _address(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ConfigError("`url` under [search] must begin with http:// or https://.")
    return url
