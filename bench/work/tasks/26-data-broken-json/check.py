import json
from pathlib import Path

assert json.loads(Path("settings.json").read_text()) == {
    "name": "weather station",
    "city": "Oslo",
    "sensors": ["wind", "rain", "sun"],
    "limits": {"wind": 30, "rain": 12.5},
    "active": True,
}
