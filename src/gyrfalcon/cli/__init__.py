"""The `gyrfalcon` command: a model from a table, predictions, reports, plans and a look at the installation."""
