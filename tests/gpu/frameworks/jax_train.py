"""A JAX training loop with donated buffers: with Flax and Optax (--flax), or plain (--plain); without either, Flax and
Optax where they are installed.

Prints the losses' and parameters' exact bits. Kernels are chosen without autotuning, so that two runs are comparable.
"""

import hashlib
import os
import sys
import time

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0"

import jax
import jax.numpy as jnp
import numpy as np

WIDTH, HIDDEN, CLASSES = 512, 2048, 16
BATCH, STEPS = (64, 6) if "--tiny" in sys.argv else (4096, 40)


def plain():
    """Returns (state, loss of a state, update)."""
    keys = jax.random.split(jax.random.PRNGKey(0), 3)
    sizes = [(WIDTH, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, CLASSES)]
    parameters = [
        {"w": jax.random.normal(k, s) * s[0] ** -0.5, "b": jnp.zeros(s[1])} for k, s in zip(keys, sizes)
    ]
    momentum = jax.tree.map(jnp.zeros_like, parameters)

    def apply(p, x):
        for layer in p[:-1]:
            x = jax.nn.gelu(x @ layer["w"] + layer["b"])
        return x @ p[-1]["w"] + p[-1]["b"]

    def update(p, m, gradient):
        m = jax.tree.map(lambda a, g: 0.9 * a + g, m, gradient)
        return jax.tree.map(lambda a, b: a - 0.01 * b, p, m), m

    return parameters, momentum, apply, update


def with_flax():
    import flax.linen as linen
    import optax

    class Network(linen.Module):
        @linen.compact
        def __call__(self, x):
            for _ in range(2):
                x = linen.LayerNorm()(linen.gelu(linen.Dense(HIDDEN)(x)))
            return linen.Dense(CLASSES)(x)

    network, optimizer = Network(), optax.adamw(1e-3)
    parameters = network.init(jax.random.PRNGKey(0), jnp.zeros((1, WIDTH)))

    def update(p, state, gradient):
        change, state = optimizer.update(gradient, state, p)
        return optax.apply_updates(p, change), state

    return parameters, optimizer.init(parameters), network.apply, update


def main():
    try:
        parameters, state, apply, update = plain() if "--plain" in sys.argv else with_flax()
    except ImportError:
        if "--flax" in sys.argv:
            raise
        parameters, state, apply, update = plain()

    def loss_of(p, x, y):
        log_probability = jax.nn.log_softmax(apply(p, x))
        return -jnp.take_along_axis(log_probability, y[:, None], axis=1).mean()

    @jax.jit
    def draw(i):
        key = jax.random.fold_in(jax.random.PRNGKey(1), i)
        return jax.random.normal(key, (BATCH, WIDTH)), jax.random.randint(key, (BATCH,), 0, CLASSES)

    # Donation: the old parameters and state are given to the step, which writes the new ones in their place.
    def one_step(p, s, x, y):
        loss, gradient = jax.value_and_grad(loss_of)(p, x, y)
        return *update(p, s, gradient), loss

    step = jax.jit(one_step, donate_argnums=(0, 1))
    losses, times = [], []
    for i in range(STEPS):
        x, y = draw(i)
        jax.block_until_ready(x)
        started = time.perf_counter()
        parameters, state, loss = step(parameters, state, x, y)
        losses.append(np.asarray(loss))
        times.append(time.perf_counter() - started)
    digest = hashlib.sha256(np.stack(losses).tobytes())
    for leaf in jax.tree.leaves(parameters):
        digest.update(np.asarray(leaf).tobytes())
    print(f"result jax_training {digest.hexdigest()[:16]}_finite_{bool(np.isfinite(losses[-1]))}")
    print(f"info last_loss {float(losses[-1]):.6f}")
    print(f"info step_ms {sorted(times[STEPS // 4 :])[len(times[STEPS // 4 :]) // 2] * 1e3:.3f}")
    print(f"info device {jax.devices()[0].platform}")


if __name__ == "__main__":
    main()
