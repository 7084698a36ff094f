# flashdojo: exercise=s2-update
"""Returns the state as it was."""
def online_softmax_update(state, scores, values):
    return state
