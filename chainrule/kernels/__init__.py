"""Compiled loops, the thread pool they run on, and what they need to work together."""
