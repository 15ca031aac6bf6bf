"""Examples: each is a script or a package of its own."""
