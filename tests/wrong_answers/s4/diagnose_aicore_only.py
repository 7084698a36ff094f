# flashdojo: exercise=s4-diagnose check=s4-diagnose.not-a-pipe misconception=diagnose-core-time
"""The vector cores' longer time is not looked at."""

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
    """What holds this kernel back, from one row as read_profile gives it.

    Returns {"bottleneck": word, "evidence": {column: its value in the row}} by the first rule that holds:
    "unknown"  aicore_us and aiv_us are both None (a level 0 profile); evidence may be empty
    "launch"   core time < 50 % of duration_us; core time = the larger of aicore_us and aiv_us.
               evidence: duration_us and that time
    "cores"    fewer than half of the cores have work: cube_utilization / 100 * duration_us / aicore_us < 0.5 (rule
               skipped when one of the three is None or 0). evidence: cube_utilization, duration_us, aicore_us
    a pipe     the largest ratio is >= 0.80: the word that PIPES gives for it. evidence: that column
    "waiting"  none of these: the pipes wait for each other. evidence: the column of the largest ratio
    evidence may hold more columns; every value must be that of the row.
    """

    def answer(bottleneck, *columns):
        return {"bottleneck": bottleneck, "evidence": {column: kernel[column] for column in columns}}

    times = {column: kernel[column] for column in ("aicore_us", "aiv_us") if kernel[column] is not None}
    if not times:
        return answer("unknown")
    longest = next(iter(times))
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
