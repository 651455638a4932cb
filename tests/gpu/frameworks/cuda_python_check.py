"""NVIDIA's cuda-python bindings: driver entry points that are looked up one by one by the package."""

import ctypes

from cuda.bindings import driver


def check(answer):
    status, *values = answer
    if int(status) != 0:
        raise RuntimeError(str(status))
    return values[0] if values else None


def main():
    check(driver.cuInit(0))
    device = check(driver.cuDeviceGet(0))
    context = check(driver.cuDevicePrimaryCtxRetain(device))
    check(driver.cuCtxSetCurrent(context))
    stream = check(driver.cuStreamCreate(0))
    total, words = 0, 1 << 16
    for i in range(40):
        plain = check(driver.cuMemAlloc(4 * words))
        ordered = check(driver.cuMemAllocAsync(4 * words, stream))
        check(driver.cuMemsetD32Async(plain, i, words, stream))
        check(driver.cuMemcpyDtoDAsync(ordered, plain, 4 * words, stream))
        host = (ctypes.c_uint32 * words)()
        check(driver.cuMemcpyDtoHAsync(ctypes.addressof(host), ordered, 4 * words, stream))
        check(driver.cuStreamSynchronize(stream))
        total += sum(host[::1024])
        check(driver.cuMemFreeAsync(ordered, stream))
        check(driver.cuMemFree(plain))
    double_free = int(driver.cuMemFree(plain)[0])
    print(f"result cuda_python {total}_double_free_{double_free}")


if __name__ == "__main__":
    main()
