import unittest

from config import merge


class Merge(unittest.TestCase):
    def test_inner_settings_stay(self):
        base = {"log": {"level": "info", "file": "a"}, "port": 80}
        merged = merge(base, {"log": {"level": "debug"}})
        self.assertEqual(merged, {"log": {"level": "debug", "file": "a"}, "port": 80})

    def test_arguments_stay_as_they_are(self):
        base = {"a": 1}
        merge(base, {"a": 2})
        self.assertEqual(base, {"a": 1})
