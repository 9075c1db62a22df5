"""Shows the optimizer's decisions about a model to people: stories, differences, the report."""
