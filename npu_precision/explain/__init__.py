"""What the optimizer decided about a model, told to people: stories, differences, the report."""
