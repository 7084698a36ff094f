"""``check`` in a notebook: the same checks on the functions of the learner's own kernel."""
