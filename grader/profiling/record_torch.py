"""Record a whole program with torch_npu.profiler: ``python record_torch.py FOLDER PROGRAM.py [ARGUMENTS...]``.

Needs an NPU with torch_npu and nothing of the course, so it may be copied and changed. Signatures: the documents of
torch_npu.profiler (profile, _ExperimentalConfig, tensorboard_trace_handler).
"""

import os
import runpy
import sys

import torch_npu

folder, program, *arguments = sys.argv[1:]
sys.argv = [program, *arguments]
sys.path[0] = os.path.dirname(os.path.abspath(program))

profiler = torch_npu.profiler
config = profiler._ExperimentalConfig(
    profiler_level=profiler.ProfilerLevel.Level1,  # Level0, the default, has no busy ratios of the pipes
    aic_metrics=profiler.AiCMetrics.PipeUtilization,
)
with profiler.profile(
    activities=[profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.NPU],
    on_trace_ready=profiler.tensorboard_trace_handler(folder),
    record_shapes=True,
    experimental_config=config,
):
    runpy.run_path(program, run_name="__main__")
    torch_npu.npu.synchronize()  # the last kernels belong to the recording
