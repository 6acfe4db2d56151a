"""Building blocks of every family of models: events and templates, the arena and its tables, costs, and the model driver."""
