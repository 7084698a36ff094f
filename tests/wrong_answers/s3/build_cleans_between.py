# flashdojo: exercise=s3-build check=s3-build.order misconception=build-cleaned-away
"""The second build starts from a clean folder, and the first package is gone."""
ORDER = [
    "install-cann",
    "install-torch-pair",
    "source-env",
    "update-sources",
    "build-package",
    "remove-vendors",
    "install-package",
    "clean-build",
    "clear-extension-cache",
    "build-wheel",
    "install-wheel",
    "restart-python",
    "verify",
]


def order_build_steps(steps):
    return sorted(steps, key=ORDER.index)
