"""Traces and metrics as projections of journals: spans from events, metrics from spans, and the forms that
collectors read. Nothing here decides when, or whether, anything is sent."""
