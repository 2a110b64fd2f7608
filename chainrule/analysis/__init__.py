"""What is done with finished runs: explain, doctor, plan, compare, mix."""
