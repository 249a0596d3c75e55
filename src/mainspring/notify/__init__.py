"""Tells people who look at no face: what needs them, what ended, what failed, what is nearly spent.

`notices.py` reads events, `plan.py` decides what is sent and when, `outbox.py` keeps that on disk, `wires.py`
writes the message of each kind of channel, `courier.py` sends it. All follows the events of a journal from
outside; no turn waits for it.
"""
