# flashdojo: exercise=s1-softmax stage=s1
"""Never ends."""
def softmax(x, dim=-1):
    while True:
        pass
