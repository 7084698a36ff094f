# flashdojo: exercise=s4-schedule
"""Tiles and queues that no buffer could hold, and a wire that is not there."""


def choose_schedule(soc, shape):
    return {"block_q": 128, "block_kv": 1024, "preload": 8, "s_slots": 16, "o_slots": 16, "p_slots": 16}
