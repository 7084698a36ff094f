# flashdojo: exercise=s3-build check=s3-build.order misconception=build-restart-early
"""Python is restarted before the wheel is installed."""
ORDER = [
    "install-cann",
    "install-torch-pair",
    "source-env",
    "update-sources",
    "clean-build",
    "build-package",
    "remove-vendors",
    "install-package",
    "clear-extension-cache",
    "build-wheel",
    "restart-python",
    "install-wheel",
    "verify",
]


def order_build_steps(steps):
    return sorted(steps, key=ORDER.index)
