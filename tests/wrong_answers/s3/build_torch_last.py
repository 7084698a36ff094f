# flashdojo: exercise=s3-build check=s3-build.order misconception=build-without-torch
"""torch comes when the extension has been built already."""
ORDER = [
    "install-cann",
    "source-env",
    "update-sources",
    "clean-build",
    "build-package",
    "remove-vendors",
    "install-package",
    "clear-extension-cache",
    "build-wheel",
    "install-wheel",
    "install-torch-pair",
    "restart-python",
    "verify",
]


def order_build_steps(steps):
    return sorted(steps, key=ORDER.index)
