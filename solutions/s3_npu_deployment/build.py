from graphlib import TopologicalSorter

# zh: 每一步的命令，按字母排列。课文的表里写着每一步做什么、需要什么。
# en: The command of each step, in alphabetical order. The table in the lesson says what it does and needs.
BUILD_STEPS = {
    "build-package": "bash build.sh --pkg --soc=ascend950 --ops=flash_attn,flash_attn_grad,flash_attn_metadata",
    "build-wheel": "bash build.sh --torch_extension --soc=ascend950",
    "clean-build": "rm -rf ./build ./build_out",
    "clear-extension-cache": "rm -rf ~/.cache/torch_extensions/*",
    "install-cann": "run the installers of the driver, the firmware and the CANN toolkit",
    "install-package": "cd build_out && ./cann-ops-transformer-*.run --install-path=${CANN_DIR}",
    "install-torch-pair": "python3 -m pip install torch==2.12.0 torch_npu==2.12.0",
    "install-wheel": "python3 -m pip install build_out/*.whl --force-reinstall --no-deps",
    "remove-vendors": "rm -rf ${CANN_DIR}/vendors",
    "restart-python": "end every Python process that has imported the old version (in a notebook: restart the kernel)",
    "source-env": "source ${CANN_DIR}/cann/set_env.sh",
    "update-sources": "git pull",
    "verify": 'python3 -c "from cann_ops_transformer.ops import flash_attn_grad", then one call of the operators',
}


def order_build_steps(steps: list) -> list:
    """Put shuffled steps of building and installing the operators into an order that works.

    steps: some of the names in BUILD_STEPS, each once: all of them for a first installation, fewer for a repair.
    Returns a new list of exactly these steps. Every order is right in which each step comes after all that it needs
    and no product is deleted before it has been used.
    """
    # zh: 对每一步想两件事：它需要哪些步骤的结果？哪一步会删掉它的结果，因而必须更早做？给你的可能只是其中几步。
    # en: Ask two things of every step: whose results does it need? Which step would delete its own result and so has
    # en: to come earlier? You may be given only some of them.
    ### BEGIN SOLUTION
    after = {
        "source-env": {"install-cann"},
        "build-package": {"source-env", "update-sources", "clean-build"},
        "install-package": {"build-package", "remove-vendors"},
        "build-wheel": {"source-env", "update-sources", "clean-build", "install-torch-pair"},
        "install-wheel": {"build-wheel"},
        "restart-python": {"install-package", "install-wheel", "clear-extension-cache"},
        "verify": {"restart-python"},
    }
    return [step for step in TopologicalSorter(after).static_order() if step in steps]
    ### END SOLUTION
