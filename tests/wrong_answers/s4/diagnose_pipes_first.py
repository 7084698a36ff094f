# flashdojo: exercise=s4-diagnose check=s4-diagnose.not-a-pipe misconception=diagnose-order
"""Pipes are compared before cores are counted."""

PIPES = {
    "mac": "cube",
    "mte1": "mte1",
    "mte2": "mte2",
    "fixpipe": "fixpipe",
    "vec": "vector",
    "aiv_mte2": "aiv_mte2",
    "mte3": "mte3",
}


def diagnose(kernel: dict) -> dict:
    def answer(bottleneck, *columns):
        return {"bottleneck": bottleneck, "evidence": {column: kernel[column] for column in columns}}

    times = {column: kernel[column] for column in ("aicore_us", "aiv_us") if kernel[column] is not None}
    if not times:
        return answer("unknown")
    full = [column for column in PIPES if (kernel[column] or 0) >= 0.8]
    if full:
        first = max(full, key=kernel.get)
        return answer(PIPES[first], first)
    longest = max(times, key=times.get)
    if times[longest] < 0.5 * kernel["duration_us"]:
        return answer("launch", "duration_us", longest)
    if kernel["cube_utilization"] and kernel["aicore_us"]:
        working = kernel["cube_utilization"] / 100 * kernel["duration_us"] / kernel["aicore_us"]
        if working < 0.5:
            return answer("cores", "cube_utilization", "duration_us", "aicore_us")
    ratios = {column: kernel[column] for column in PIPES if kernel[column] is not None}
    if not ratios:
        return answer("unknown")
    busiest = max(ratios, key=ratios.get)
    return answer(PIPES[busiest] if ratios[busiest] >= 0.8 else "waiting", busiest)
