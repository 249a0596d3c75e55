"""The models that a server lists, in the words of every kind of server. Pure."""

import msgspec

_MOST_LISTED = 20_000
_LONGEST_NAME = 300


class ServedModel(msgspec.Struct, frozen=True):
    """`has_tools` says whether the model was taught to make calls, `billions` how many parameters it has,
    `has_thinking_cap` whether its server ends thinking after as many tokens as it is told, `temperature` and
    `top_p` how it samples when it is not told."""

    id: str
    context_tokens: int | None = None
    has_tools: bool | None = None
    billions: float | None = None
    has_images: bool | None = None
    has_thinking: bool | None = None
    has_thinking_cap: bool = False
    has_parallel_calls: bool | None = None
    temperature: float | None = None
    top_p: float | None = None


class _Meta(msgspec.Struct):
    n_ctx: int | None = None
    n_ctx_train: int | None = None
    n_params: float | None = None


class Listed(msgspec.Struct):
    """Each kind of server has its own word for how much context a model takes."""

    id: str = ""
    name: str = ""
    max_model_len: int | None = None
    context_length: int | None = None
    context_window: int | None = None
    loaded_context_length: int | None = None
    max_context_length: int | None = None
    max_input_tokens: int | None = None
    input_token_limit: int | None = msgspec.field(default=None, name="inputTokenLimit")
    methods: list[str] | None = msgspec.field(default=None, name="supportedGenerationMethods")
    meta: _Meta | None = None

    @property
    def sizes(self) -> tuple[int | None, ...]:
        """What it is said to take: as it runs first, as it could be run last."""
        meta = self.meta or _Meta()
        possible = (self.context_length, self.context_window, self.max_context_length, meta.n_ctx_train)
        offered = (self.max_input_tokens, self.input_token_limit)
        return (self.max_model_len, meta.n_ctx, *possible, *offered)

    @property
    def billions(self) -> float | None:
        return self.meta.n_params / 1e9 if self.meta and self.meta.n_params else None

    @property
    def is_for_text(self) -> bool:
        """Whether it can be asked as we ask; Gemini lists models that only embed, too."""
        return self.methods is None or "generateContent" in self.methods


class ListPage(msgspec.Struct):
    """A page of a list: `data` at OpenAI and those like it, and Anthropic; `models` at Gemini."""

    data: list[Listed] | None = None
    models: list[Listed] | None = None
    has_more: bool = False
    last_id: str | None = None
    next_page: str | None = msgspec.field(default=None, name="nextPageToken")

    @property
    def after(self) -> str:
        """Where the next page begins; empty when this is the last."""
        return self.next_page or (self.last_id if self.has_more else None) or ""


def as_served(listed: list[Listed]) -> tuple[ServedModel, ...]:
    """Each model once, under the name that a request has for it."""
    found = dict[str, ServedModel]()
    for model in listed[:_MOST_LISTED]:
        name = model.id or model.name.removeprefix("models/")
        if name and len(name) <= _LONGEST_NAME and model.is_for_text:
            size = next((size for size in model.sizes if size), None)
            found.setdefault(name, ServedModel(name, size, billions=model.billions))
    return tuple(found.values())
