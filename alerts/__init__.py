"""Incidents to the people on call: one page per incident, updated as it grows, resolved when it ends."""
