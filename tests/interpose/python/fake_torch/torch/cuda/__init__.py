from . import memory  # noqa: F401


def device_count():
    return 1
