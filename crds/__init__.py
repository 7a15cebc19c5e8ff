"""THE CONTRACT: what users write, and what the bridge watches."""
