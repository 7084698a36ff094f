"""What the repository proves about itself (``flashdojo dev check``)."""
