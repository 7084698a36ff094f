# flashdojo: exercise=s3-build check=s3-build.repairs misconception=build-steps-changed
"""Every repair is a whole installation."""
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
    "install-wheel",
    "restart-python",
    "verify",
]


def order_build_steps(steps):
    return list(ORDER)
