"""The form of chat answers."""
