import unittest

from words import count_words


class Words(unittest.TestCase):
    def test_counts(self):
        self.assertEqual(count_words("The cat. The dog!"), {"the": 2, "cat": 1, "dog": 1})
