"""rlhf with a key-value cache that is taken once per rollout at its full length: one large block a layer that lives as
long as the rollout and is only ever used in part, instead of hundreds that grow."""

import functools
import sys

from common import main
from rlhf import build

if __name__ == "__main__":
    sys.exit(main("rlhf_static", functools.partial(build, growing=False)))
