"""Shows people what the optimizer decided about a model: stories, differences, the report."""
