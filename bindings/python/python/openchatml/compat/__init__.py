"""Names of other packages over this one. Each module is imported by its own name."""
