import json
from pathlib import Path

assert json.loads(Path("people.json").read_text()) == [
    {"name": "Ann Lee", "age": 34, "email": "ann@example.org"},
    {"name": "Bob Ray", "age": 41, "email": None},
    {"name": "Cleo Fox", "age": 29, "email": "cleo@example.org"},
    {"name": "Dan Orr", "age": 57, "email": None},
]
