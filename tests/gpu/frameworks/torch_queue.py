"""CUDA tensors sent between processes by torch.multiprocessing: to a spawned child and back, by a queue and by a pipe.

Nothing is set for it. What is printed (`result NAME VALUE`) must be what it is without the shim: the right values, also
of a tensor that lies between others, and one that the child changes in place is changed for its parent.
"""

import torch
import torch.multiprocessing as mp

COUNT = 100_000


def serve(tasks, answers, pipe, done):
    tensor = tasks.get()
    answers.put((int(tensor.sum()), tensor * 3))
    tensor += 1
    torch.cuda.synchronize()
    pipe.send(tensor.clone())
    done.wait(60)  # what this process has sent is its own, and goes with it
    del tensor


def main():
    if not torch.cuda.is_available():
        print("skip needs a GPU")
        return
    context = mp.get_context("spawn")
    tasks, answers, done = context.Queue(), context.Queue(), context.Event()
    pipe, other_end = context.Pipe()
    child = context.Process(target=serve, args=(tasks, answers, other_end, done))
    child.start()
    try:
        others = [torch.full((COUNT,), -i, dtype=torch.int32, device="cuda") for i in range(5)]
        tensor = torch.arange(COUNT, device="cuda", dtype=torch.int32)
        expected = tensor.clone()
        tasks.put(tensor)
        total, tripled = answers.get(timeout=60)
        print(f"result there {'right' if total == int(expected.sum()) else f'wrong_{total}'}", flush=True)
        print(f"result back {'right' if torch.equal(tripled, expected * 3) else 'wrong'}", flush=True)
        changed = pipe.recv() if pipe.poll(60) else None
        print(f"result pipe {'right' if changed is not None and torch.equal(changed, expected + 1) else 'wrong'}")
        print(f"result in_place {'right' if torch.equal(tensor, expected + 1) else 'wrong'}")
        untouched = all(bool((other == -i).all()) for i, other in enumerate(others))
        print(f"result others {'untouched' if untouched else 'changed'}", flush=True)
        del tripled, changed
    finally:
        done.set()
        child.join(30)
        if child.is_alive():
            child.terminate()
    print(f"info backend {torch.cuda.get_allocator_backend()}")


if __name__ == "__main__":
    main()
