# flashdojo: exercise=s3-build check=s3-build.order misconception=build-old-sources
"""New sources come between the two builds."""
ORDER = [
    "install-cann",
    "install-torch-pair",
    "source-env",
    "clean-build",
    "build-package",
    "update-sources",
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
