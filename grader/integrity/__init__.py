"""What submissions share with each other and with the published solutions: hints for a human, never a mark."""
