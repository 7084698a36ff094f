# flashdojo: exercise=s3-build check=s3-build.order misconception=build-environment
"""The environment is sourced after the first build."""
ORDER = [
    "install-cann",
    "install-torch-pair",
    "update-sources",
    "clean-build",
    "build-package",
    "source-env",
    "remove-vendors",
    "install-package",
    "clear-extension-cache",
    "build-wheel",
    "install-wheel",
    "restart-python",
    "verify",
]


def order_build_steps(steps):
    return sorted(steps, key=ORDER.index)
