import unittest

from recent import RecentCache


class Recent(unittest.TestCase):
    def test_the_oldest_goes(self):
        cache = RecentCache(2)
        cache.put("a", 1)
        cache.put("b", 2)
        cache.put("c", 3)
        self.assertIsNone(cache.get("a"))
        self.assertEqual(cache.get("c"), 3)
        self.assertEqual(len(cache), 2)
