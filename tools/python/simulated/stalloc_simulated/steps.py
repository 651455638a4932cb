"""Counts optimizer steps, and ends the program after STALLOC_SIMULATED_STEPS of them.

A step is a call of any torch.optim.Optimizer's step, by the first optimizer that took one: a program with two of them
(GANs) counts one for both. Optimizers that are none of torch's (DeepSpeed's, Megatron's) drive one that is.
"""

import os
import sys

from stalloc_simulated import report


def install(torch):
    from torch.optim.optimizer import register_optimizer_step_post_hook

    limit = int(os.environ.get("STALLOC_SIMULATED_STEPS") or 0)
    counted = []

    def after_step(optimizer, _args, _kwargs):
        if not counted:
            counted.append(id(optimizer))
        if counted[0] != id(optimizer):
            return
        report.steps += 1
        if limit and report.steps >= limit:
            print(f"stalloc: ending the program after {report.steps} optimizer steps", file=sys.stderr, flush=True)
            raise SystemExit(0)

    register_optimizer_step_post_hook(after_step)
