import json
import shutil
from pathlib import Path

from kernels.perf import Schedule, Shape, find_soc, predict
from kernels.profiles import kernel_run, write_pytorch


def write_profile(folder: str, schedule: Schedule) -> None:
    """Write the profile of one run of the case "block-size" with this schedule into a new ``folder``."""
    # zh: 重写时先删掉旧的，一个文件夹里只放一份 profile
    # en: an old one is removed first: a folder holds one profile
    shutil.rmtree(folder, ignore_errors=True)
    soc, shape = find_soc("950PR"), Shape(1, 16, 16, 4096, 4096, 128)
    write_pytorch(folder, [kernel_run(predict(soc, shape, schedule), shape, soc)])


# zh: profiles/before 是起点的，profiles/after 是 schedules.json 里 block-size 那个调度的。
# en: profiles/before is of the start, profiles/after of the schedule for block-size in schedules.json.
### BEGIN SOLUTION
tuned = json.loads(Path("schedules.json").read_text(encoding="utf-8"))["block-size"]
write_profile("profiles/before", Schedule(block_q=64))
write_profile("profiles/after", Schedule.from_json(tuned))
### END SOLUTION
