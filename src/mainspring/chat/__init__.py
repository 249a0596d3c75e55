"""The chat at a terminal: a face beside the command line. It renders events and calls operations.

`start.run_chat` is the way in. Everything here is loaded only when a chat is opened.
"""
