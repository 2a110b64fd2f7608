"""The training doctor: examines a run and says what is wrong with it and what to do about it."""
