"""What people said while a step ran, to be heard by the next one; until then they can take it back."""

from __future__ import annotations

from mainspring.disk.inbox import SayCommand
from mainspring.errors import PromptRefused
from mainspring.events import UserSaid
from mainspring.events.escaping import whole_characters
from mainspring.turns.runtime import Runtime


async def take_steers(runtime: Runtime) -> None:
    """Records it, now that a step is over."""
    if (inbox := runtime.approvals.inbox) is None or not await inbox.is_filled():
        return
    for left in inbox.waiting(SayCommand):
        command = left.command
        if not isinstance(command, SayCommand) or not command.is_steer or left.is_taken:
            continue
        if taken := inbox.take(left):
            said = UserSaid(text=whole_characters(command.text), origin=left.origin, command=left.id)
            try:
                await runtime.record(*await runtime.vet(said), said)
            except PromptRefused as error:
                inbox.refuse(taken, error.message.removesuffix("."))
            else:
                inbox.done(taken)
