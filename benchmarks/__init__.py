"""Side by side with llama-server, in one run."""
