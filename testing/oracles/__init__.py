"""What the reference, llama-server b11192, answered: the recorders, their records, and how both are read."""
