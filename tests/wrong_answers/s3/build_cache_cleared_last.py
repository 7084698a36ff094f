# flashdojo: exercise=s3-build check=s3-build.order misconception=build-stale-cache
"""The cache is cleared when the new process has loaded it already."""
ORDER = [
    "install-cann",
    "install-torch-pair",
    "source-env",
    "update-sources",
    "clean-build",
    "build-package",
    "remove-vendors",
    "install-package",
    "build-wheel",
    "install-wheel",
    "restart-python",
    "clear-extension-cache",
    "verify",
]


def order_build_steps(steps):
    return sorted(steps, key=ORDER.index)
