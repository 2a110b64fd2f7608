"""What the commands are tried on."""

LINES = [f"on day {i} the {'red' if i % 3 else 'old'} cow eats {'hay' if i % 2 else 'grass'}" for i in range(200)]
