"""Where to ask next. It knows no study."""
