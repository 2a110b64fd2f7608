"""The training doctor: looks at a run from all sides, and says what is wrong and what to do about it."""
