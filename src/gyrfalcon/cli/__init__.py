"""The `gyrfalcon` command: fit models to tables, predict, report, plan, and check the installation."""
