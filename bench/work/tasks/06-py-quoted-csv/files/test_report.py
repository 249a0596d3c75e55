import unittest

from report import total


class Report(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total("orders.csv"), 10.0)
