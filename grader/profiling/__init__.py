"""What ``flashdojo profile`` is made of: questions to the performance model, the page of a profile, real recordings."""
