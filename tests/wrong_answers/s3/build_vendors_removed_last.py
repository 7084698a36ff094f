# flashdojo: exercise=s3-build check=s3-build.order misconception=build-vendors-removed
"""Old vendors are removed after the new ones were installed."""
ORDER = [
    "install-cann",
    "install-torch-pair",
    "source-env",
    "update-sources",
    "clean-build",
    "build-package",
    "install-package",
    "remove-vendors",
    "clear-extension-cache",
    "build-wheel",
    "install-wheel",
    "restart-python",
    "verify",
]


def order_build_steps(steps):
    return sorted(steps, key=ORDER.index)
