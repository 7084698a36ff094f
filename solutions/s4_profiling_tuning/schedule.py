def choose_schedule(soc: dict, shape: dict) -> dict:
    """A schedule for this chip and shape."""
    ### BEGIN SOLUTION
    return {"block_q": 128, "block_kv": 128, "preload": 2}
    ### END SOLUTION
