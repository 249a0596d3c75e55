import unittest

from items import last_items


class LastItems(unittest.TestCase):
    def test_two(self):
        self.assertEqual(last_items([1, 2, 3, 4], 2), [3, 4])


if __name__ == "__main__":
    unittest.main()
