// What the driver does with cuMemAlloc memory of two devices, none of which was given access to the other: rows and
// volumes from one to the other, batches, captures and graphs.
#include "peers.h"

enum { kPitch = 1024, kWidth = 400, kRows = 5, kSlices = 2, kStride = 8 };

static CUDA_MEMCPY2D Rows(CUdeviceptr to, CUdeviceptr from) {
  CUDA_MEMCPY2D copy = {0};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from, copy.dstDevice = to;
  copy.srcPitch = copy.dstPitch = kPitch;
  copy.srcXInBytes = copy.dstXInBytes = 16;
  copy.srcY = copy.dstY = 1;
  copy.WidthInBytes = kWidth, copy.Height = kRows;
  return copy;
}

static CUDA_MEMCPY3D Volume(CUdeviceptr to, CUdeviceptr from) {
  CUDA_MEMCPY3D copy = {0};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = from, copy.dstDevice = to;
  copy.srcPitch = copy.dstPitch = kPitch;
  copy.srcHeight = copy.dstHeight = kStride;
  copy.srcXInBytes = copy.dstXInBytes = 16;
  copy.srcY = copy.dstY = 1, copy.srcZ = copy.dstZ = 1;
  copy.WidthInBytes = kWidth, copy.Height = kRows, copy.Depth = kSlices;
  return copy;
}

static uint32_t WordAt(int device, CUdeviceptr address) {
  uint32_t word = 0;
  Use(device);
  CHECK(cuMemcpyDtoH(&word, address, 4) == CUDA_SUCCESS);
  return word;
}

// The inside of the rows holds `word`, and what lies around them `around`.
static void CheckRows(int device, CUdeviceptr block, int first_slice, int slices, uint32_t word, uint32_t around) {
  for (int slice = first_slice; slice < first_slice + slices; ++slice) {
    const CUdeviceptr first = block + ((CUdeviceptr)slice * kStride + 1) * kPitch, last = first + (kRows - 1) * kPitch;
    CHECK(WordAt(device, first + 16) == word && WordAt(device, last + 16 + kWidth - 4) == word);
    CHECK(WordAt(device, first + 12) == around && WordAt(device, last + 16 + kWidth) == around);
    CHECK(WordAt(device, first - kPitch + 16) == around && WordAt(device, last + kPitch + 16) == around);
  }
}

static void FillAll(int device, CUdeviceptr block, uint32_t word) {
  Use(device);
  CHECK(cuMemsetD32Async(block, word, kBytes / 4, streams[device]) == CUDA_SUCCESS);
  CHECK(cuStreamSynchronize(streams[device]) == CUDA_SUCCESS);
}

// By each device, on its streams and by default, to and fro.
void CopyRowsBetween(void) {
  const CUdeviceptr blocks[2] = {Allocate(0), Allocate(1)};
  uint32_t word = 0;
  for (int round = 0; round < 28; ++round) {
    const int way = round % 7, acting = round / 7 % 2, from = round / 14;
    const CUDA_MEMCPY2D rows = Rows(blocks[1 - from], blocks[from]);
    const CUDA_MEMCPY3D volume = Volume(blocks[1 - from], blocks[from]);
    CUDA_MEMCPY3D_PEER named = {0};
    named.srcContext = contexts[from], named.dstContext = contexts[1 - from];
    named.srcMemoryType = named.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    named.srcDevice = blocks[from], named.dstDevice = blocks[1 - from];
    named.srcPitch = named.dstPitch = kPitch;
    named.srcXInBytes = named.dstXInBytes = 16, named.srcY = named.dstY = 1;
    named.WidthInBytes = kWidth, named.Height = kRows, named.Depth = 1;
    word += 2;
    FillAll(from, blocks[from], word);
    FillAll(1 - from, blocks[1 - from], word + 1);
    Use(acting);
    CUstream stream = streams[acting];
    if (way == 0) CHECK(cuMemcpy2D(&rows) == CUDA_SUCCESS);
    if (way == 1) CHECK(cuMemcpy2DUnaligned(&rows) == CUDA_SUCCESS);
    if (way == 2) CHECK(cuMemcpy2DAsync(&rows, stream) == CUDA_SUCCESS);
    if (way == 3) CHECK(cuMemcpy3D(&volume) == CUDA_SUCCESS);
    if (way == 4) CHECK(cuMemcpy3DAsync(&volume, stream) == CUDA_SUCCESS);
    if (way == 5) CHECK(cuMemcpy3DPeer(&named) == CUDA_SUCCESS);
    if (way == 6) CHECK(cuMemcpy3DPeerAsync(&named, stream) == CUDA_SUCCESS);
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
    const int is_volume = way == 3 || way == 4;
    CheckRows(1 - from, blocks[1 - from], is_volume, is_volume ? kSlices : 1, word, word + 1);
  }
}

// The device that acts has no memory of its own.
void OnlyElsewhere(void) {
  uint32_t word = 0;
  const CUdeviceptr block = Allocate(1);
  Use(0);
  CHECK(cuMemsetD32(block, 7, kBytes / 4) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoH(&word, block + kBytes - 4, 4) == CUDA_SUCCESS && word == 7);
  CHECK(cuMemcpyHtoDAsync(block, &(uint32_t){8}, 4, streams[0]) == CUDA_SUCCESS);
  CHECK(cuStreamSynchronize(streams[0]) == CUDA_SUCCESS && WordAt(1, block) == 8);
}

// Captured on a stream of device 0: a fill of device 1's block, a copy of it to device 0 and on to the host.
static void Captured(const CUdeviceptr* blocks, uint32_t* host) {
  CUgraph graph;
  CUgraphExec exec;
  const CUDA_MEMCPY2D rows = Rows(blocks[0], blocks[1]);
  FillAll(0, blocks[0], 1);
  FillAll(1, blocks[1], 2);
  Use(0);
  CHECK(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  CHECK(cuMemsetD32Async(blocks[1], 3, kBytes / 4, streams[0]) == CUDA_SUCCESS);
  CHECK(cuMemcpy2DAsync(&rows, streams[0]) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoHAsync(host, blocks[1] + kBytes - 8, 8, streams[0]) == CUDA_SUCCESS);
  CHECK(cuMemcpyAsync(blocks[1], blocks[0], 4, streams[0]) == CUDA_SUCCESS);
  CHECK(cuStreamEndCapture(streams[0], &graph) == CUDA_SUCCESS);
  CHECK(cuGraphInstantiate(&exec, graph, 0) == CUDA_SUCCESS);
  for (int launch = 0; launch < 3; ++launch) {
    FillAll(0, blocks[0], 1);
    FillAll(1, blocks[1], 2);
    host[0] = host[1] = 0;
    Use(0);
    CHECK(cuGraphLaunch(exec, streams[0]) == CUDA_SUCCESS && cuStreamSynchronize(streams[0]) == CUDA_SUCCESS);
    CheckRows(0, blocks[0], 0, 1, 3, 1);
    CHECK(host[0] == 3 && host[1] == 3 && WordAt(1, blocks[1]) == 1 && WordAt(1, blocks[1] + 4) == 3);
  }
}

static void NodesOfAGraph(const CUdeviceptr* blocks) {
  CUgraph graph;
  CUgraphExec exec;
  CUgraphNode filled, copied;
  CUDA_MEMSET_NODE_PARAMS fill = {0};
  CUDA_MEMCPY3D copy = {0};
  fill.dst = blocks[1], fill.value = 5, fill.elementSize = 4, fill.width = kBytes / 4, fill.height = 1;
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = blocks[1], copy.dstDevice = blocks[0];
  copy.WidthInBytes = kBytes, copy.Height = copy.Depth = 1;
  CHECK(cuGraphCreate(&graph, 0) == CUDA_SUCCESS);
  CHECK(cuGraphAddMemsetNode(&filled, graph, NULL, 0, &fill, contexts[0]) == CUDA_SUCCESS);
  CHECK(cuGraphAddMemcpyNode(&copied, graph, &filled, 1, &copy, contexts[0]) == CUDA_SUCCESS);
  CHECK(cuGraphInstantiate(&exec, graph, 0) == CUDA_SUCCESS);
  Use(0);
  CHECK(cuGraphLaunch(exec, streams[0]) == CUDA_SUCCESS && cuStreamSynchronize(streams[0]) == CUDA_SUCCESS);
  CHECK(Holds(0, blocks[0], 5) && Holds(1, blocks[1], 5));
}

void InOneCall(void) {
  uint32_t* host = NULL;
  const CUdeviceptr blocks[2] = {Allocate(0), Allocate(1)}, more = Allocate(1);
  CHECK(cuMemAllocHost((void**)&host, kBytes) == CUDA_SUCCESS);
  for (int part = 0; part < 3; ++part) {
    if (part == 0) {
      CUdeviceptr to[2] = {blocks[0], more}, from[2] = {blocks[1], blocks[0] + 4096};
      size_t sizes[2] = {4096, kBytes - 4096}, first = 0;
      CUmemcpyAttributes attributes = {0};
      attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
      FillAll(0, blocks[0], 11);
      FillAll(1, blocks[1], 12);
      Use(0);
      CHECK(cuMemcpyBatchAsync(to, from, sizes, 2, &attributes, &first, 1, streams[0]) == CUDA_SUCCESS);
      CHECK(cuStreamSynchronize(streams[0]) == CUDA_SUCCESS);
      CHECK(WordAt(0, blocks[0] + 4092) == 12 && WordAt(0, blocks[0] + 4096) == 11 && WordAt(1, more) == 11);
    }
    if (part == 1) Captured(blocks, host);
    if (part == 2) NodesOfAGraph(blocks);
  }
  // Memory that is mapped from now on is within reach too.
  const CUDA_MEMCPY2D rows = Rows(Allocate(1), blocks[0]);
  FillAll(0, blocks[0], 21);
  FillAll(1, rows.dstDevice, 22);
  Use(0);
  CHECK(cuMemcpy2DAsync(&rows, streams[0]) == CUDA_SUCCESS && cuStreamSynchronize(streams[0]) == CUDA_SUCCESS);
  CheckRows(1, rows.dstDevice, 0, 1, 21, 22);
  CHECK(simcudaCorruptions() == 0);
}
