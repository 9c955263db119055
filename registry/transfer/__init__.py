"""Models from elsewhere and to elsewhere: registries of Ollama's kind, Hugging Face among them, and package indexes."""
