"""Get a validated value instead of text. The model is told once when its answer does not fit."""

from dataclasses import dataclass

from demo_model import model

import mainspring


@dataclass
class City:
    name: str
    people: int


replies = model('{"name": "Ulm", "people": "many"}', '{"name": "Ulm", "people": 129000}')
reply = mainspring.run("Name a city on the Danube.", model=replies, output=City)
print(reply.output)
