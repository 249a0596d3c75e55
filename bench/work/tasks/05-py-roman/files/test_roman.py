import unittest

from roman import from_roman, to_roman


class Roman(unittest.TestCase):
    def test_to_roman(self):
        self.assertEqual(to_roman(14), "XIV")
        self.assertEqual(to_roman(1990), "MCMXC")

    def test_from_roman(self):
        self.assertEqual(from_roman("XIV"), 14)

    def test_range(self):
        with self.assertRaises(ValueError):
            to_roman(0)
