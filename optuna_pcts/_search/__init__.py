"""Where to ask next, of a tree and of what trials near each other tell; it knows no study."""
