"""What people do with sessions, goals and this machine, as functions on values: every face calls these.

A function takes the settings and what was asked for, and gives a frozen value, or raises a `MainspringError`
with a sentence and a remedy. It prints nothing, asks nobody, and reads no environment. Each subject is a
module of its own, so that a command loads only what it needs. Turns are taken through `mainspring.open`.
"""
