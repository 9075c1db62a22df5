"""The models of users, read from files and rewritten without a session."""
