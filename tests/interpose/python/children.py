"""Has a child the adapter, by each way of starting one?"""
import multiprocessing
import sys


def child(queue):
    import _ctypes  # noqa: F401

    queue.put("_stalloc" in sys.modules)


if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    print("_stalloc" in sys.modules, queue.get())
    process.join()
