"""What every family of models is made of: events and recipes, the arena and its tables, costs, and the driver of a model."""
