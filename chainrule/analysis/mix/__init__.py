"""Making a mix of runs: what its parts say of a text, weights by expectation maximisation, and what they gain."""
