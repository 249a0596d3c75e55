"""What a team's caps leave: for a person, and for a project, in a day and in a calendar month.

There is no second account: the journals say what was spent, as for the cap of a day, and whoever reserves
holds the same lock. What nobody's word is known for counts for everybody.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from mainspring.app.permitted_sessions import PermittedSessions, project_folder
from mainspring.app.team import InForce, rules_in
from mainspring.catalog import Purpose, Sessions, SessionSpend, local_day
from mainspring.folds.caps import TeamLeft
from mainspring.people.constraints import TeamCap, caps_of
from mainspring.people.persons import Person, recorded_name
from mainspring.people.team import TeamPolicy
from mainspring.settings import Config

_MONTH = len("2026-01")


class TeamMoney:
    """The caps for these people in a folder; `policies` are those in force when it is asked."""

    def __init__(
        self,
        store: Sessions,
        policies: Callable[[], tuple[InForce, ...]],
        people: tuple[Person, ...],
        folder: str,
        config: Config,
    ) -> None:
        self._store = store.whole if isinstance(store, PermittedSessions) else store
        self._policies, self._people, self._folder, self._config = policies, people, folder, config

    async def is_capped(self) -> bool:
        return bool(await self._caps())

    async def left(self) -> TeamLeft | None:
        """The cap that leaves the least; None when there is none."""
        found = await self._caps()
        if not found:
            return None
        spends = await self._store.spends()
        folders = {row.id: project_folder(row, self._store, self._config) for row in await self._store.rows()}
        lefts = [self._left(policy, person, cap, spends, folders) for policy, person, cap in found]
        return min(lefts, key=lambda left: left.cap_usd - left.spent_usd)

    async def _caps(self) -> list[tuple[TeamPolicy, Person, TeamCap]]:
        policies = await asyncio.to_thread(self._policies)
        return [
            (each.policy, person, cap)
            for each in policies
            for person in self._people
            for cap in caps_of(rules_in((each,), person, self._folder))
        ]

    def _left(
        self,
        policy: TeamPolicy,
        person: Person,
        cap: TeamCap,
        spends: list[SessionSpend],
        folders: Mapping[str, str],
    ) -> TeamLeft:
        today = local_day(time.time_ns() // 1000)
        since = today if cap.per == "day" else today[:_MONTH]
        names = ("", recorded_name(person))

        def counts(session: str, purpose: Purpose) -> bool:
            if not purpose.day.startswith(since):
                return False
            if cap.whose == "person":
                return purpose.person in names
            return self._is_same_project(policy, folders.get(session, ""))

        spent = sum(
            one.usd for each in spends for purpose, one in each.spent.items() if counts(each.id, purpose)
        )
        whose = person.name if cap.whose == "person" else f"project {self._project(policy)}"
        return TeamLeft(cap_usd=cap.usd, spent_usd=spent, about=f"{cap.words} for {whose}", rule=cap.rule)

    def _project(self, policy: TeamPolicy) -> str:
        project = policy.project_of(self._folder)
        return project.name if project else self._folder

    def _is_same_project(self, policy: TeamPolicy, folder: str) -> bool:
        project = policy.project_of(self._folder)
        return folder == self._folder if project is None else policy.project_of(folder) == project
