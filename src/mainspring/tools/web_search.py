"""Searches the web where the settings say so; a session without `[search]` has no such tool."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from mainspring.models import Price
from mainspring.models.web_search import SearchAnswer, SearchFailed, SearchRequest, search_web
from mainspring.tools import CallContext, Output, Tool, ToolFailed
from mainspring.tools.bounds import bounded
from mainspring.tools.files import described
from mainspring.tools.schema import Arguments

NAME = "web_search"
_MAX_SHOWN = 16_000


class WebSearchArguments(Arguments, frozen=True):
    query: Annotated[str, Meta(min_length=1, max_length=400)]


class SearchCost(msgspec.Struct, frozen=True):
    """`each_usd` is for a search, `price` for the tokens of a provider's model, `most_usd` for a whole call,
    None when nobody knows."""

    each_usd: float
    price: Price | None
    most_usd: float | None

    def of(self, answer: SearchAnswer) -> float | None:
        tokens = self.price.cost_usd(answer.usage) if self.price and answer.usage else 0.0
        return self.each_usd * answer.searches + tokens


def web_search_tool(
    request: SearchRequest, environment: Mapping[str, str], cost: SearchCost, *, most: int
) -> Tool:
    async def run(arguments: WebSearchArguments, place: CallContext) -> Output:
        try:
            answer = await search_web(request, arguments.query, environment, most=most)
        except SearchFailed as error:
            raise ToolFailed(error.message) from error
        output = Output(text=_shown(answer), cost_usd=cost.of(answer))
        return await bounded(output, place, limit=min(_MAX_SHOWN, place.room))

    return Tool(
        name=NAME,
        description=described(Path(__file__)),
        arguments=WebSearchArguments,
        effect="network",
        hosts=lambda _: (request.host,),
        run=run,
        cost_usd=(lambda _: cost.most_usd) if cost.most_usd != 0.0 else None,
    )


def _shown(answer: SearchAnswer) -> str:
    lines = [answer.answer] if answer.answer else []
    for number, each in enumerate(answer.results, 1):
        lines.append("\n   ".join(filter(None, (f"{number}. {each.title or each.url}", each.url, each.text))))
    return "\n".join(lines) if answer.results else "\n".join([*lines, "No results."])
