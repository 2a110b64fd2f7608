"""Plans a training on paper: parameters, FLOPs, memory, time and cost, before anything is allocated."""
