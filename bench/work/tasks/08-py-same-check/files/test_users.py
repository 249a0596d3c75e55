import unittest

import users


class Users(unittest.TestCase):
    def test_create_and_rename(self):
        known = {}
        users.create_user(known, "ann")
        users.rename_user(known, "ann", "bob")
        self.assertEqual(known, {"bob": {"active": True}})

    def test_check_name(self):
        with self.assertRaises(ValueError):
            users.check_name("a b")
