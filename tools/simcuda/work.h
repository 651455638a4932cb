// The kinds of work that a device does: kernels that touch ranges, copies, fills, host functions, bookkeeping.
// Run is called under the machine's lock.
#pragma once

#include <cstdint>
#include <vector>

#include "contents.h"
#include "cuda_driver.h"
#include "graph.h"
#include "launch.h"
#include "simcuda/extensions.h"
#include "stream.h"

namespace stalloc::simcuda {

// What a device checks on every access: CUDA_ERROR_ILLEGAL_ADDRESS unless the whole range is mapped and the context's
// device may read (write) it. Host memory that the driver knows may be accessed too.
CUresult CheckAccess(Machine& machine, const Context& context, CUdeviceptr address, std::uint64_t size_bytes,
                     bool write);

// The same for copies and fills, which reach cuMemAlloc memory of any device.
CUresult CheckTransfer(Machine& machine, const Context& context, CUdeviceptr address, std::uint64_t size_bytes,
                       bool write);

// A kernel: reads, compares tags, writes.
class Kernel : public Work {
 public:
  Kernel(std::vector<simcudaRange> reads, std::vector<simcudaRange> writes, std::uint64_t duration)
      : Work(duration), reads_(std::move(reads)), writes_(std::move(writes)) {}
  CUresult Run(Machine& machine, Stream& stream) override;
  CUgraphNodeType node_type() const override { return CU_GRAPH_NODE_TYPE_KERNEL; }

 private:
  std::vector<simcudaRange> reads_, writes_;
};

class Fill : public Work {
 public:
  Fill(CUdeviceptr address, std::uint64_t size_bytes, std::uint32_t pattern);
  CUresult Run(Machine& machine, Stream& stream) override;
  CUgraphNodeType node_type() const override { return CU_GRAPH_NODE_TYPE_MEMSET; }

 private:
  CUdeviceptr address_;
  std::uint64_t size_bytes_;
  std::uint32_t pattern_;
};

// Where a copy comes from or goes to.
//
// A copy between devices whose ends both come from cuMemAlloc needs no peer access: the driver knows whose memory it is
// and goes by way of the host where it must. Memory that is mapped or of a pool has to be accessible from the stream's
// device, unless the call names the end's own context, as cuMemcpyPeer does. So PyTorch describes it where it chooses
// between the two calls (CUDACachingAllocator.cpp, memcpyAsync). Mapped memory of which this is not so is refused when
// the copy is asked for: so cuMemcpyDtoH on two H200s. Fills are taken to follow the same rules.
struct CopyEnd {
  std::uint64_t address = 0;
  bool on_device = false;
  const Context* context = nullptr;  // named by the call; null: the stream's
};

class Copy : public Work {
 public:
  // `snapshot`: the source's bytes, where they were taken when the copy was queued (pageable host memory); else empty.
  Copy(CopyEnd destination, CopyEnd source, std::uint64_t size_bytes, std::vector<std::uint8_t> snapshot);
  CUresult Run(Machine& machine, Stream& stream) override;
  CUgraphNodeType node_type() const override { return CU_GRAPH_NODE_TYPE_MEMCPY; }

 private:
  CopyEnd destination_, source_;
  std::uint64_t size_bytes_;
  std::vector<std::uint8_t> snapshot_;
};

// Four or eight bytes.
class WriteWord : public Work {
 public:
  WriteWord(CUdeviceptr address, std::uint64_t value, std::size_t size_bytes)
      : address_(address), value_(value), size_bytes_(size_bytes) {}
  CUresult Run(Machine& machine, Stream& stream) override;
  CUgraphNodeType node_type() const override { return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP; }

 private:
  CUdeviceptr address_;
  std::uint64_t value_;
  std::size_t size_bytes_;
};

// One that changes nothing: a wait for a value, a flush.
class MemoryOperation : public Work {
 public:
  CUresult Run(Machine&, Stream&) override { return CUDA_SUCCESS; }
  CUgraphNodeType node_type() const override { return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP; }
};

class HostFunction : public Work {
 public:
  HostFunction(CUhostFn function, void* argument) : function_(function), argument_(argument) {}
  CUresult Run(Machine&, Stream&) override { return CUDA_SUCCESS; }
  CUgraphNodeType node_type() const override { return CU_GRAPH_NODE_TYPE_HOST; }
  bool runs_on_host() const override { return true; }
  void RunOnHost() override { function_(argument_); }

 private:
  CUhostFn function_;
  void* argument_;
};

class RecordTime : public Work {
 public:
  explicit RecordTime(std::shared_ptr<EventRecord> record) : record_(std::move(record)) {}
  CUresult Run(Machine&, Stream& stream) override {
    record_->time_ns = stream.clock_ns;
    return CUDA_SUCCESS;
  }
  CUgraphNodeType node_type() const override { return CU_GRAPH_NODE_TYPE_EVENT_RECORD; }

 private:
  std::shared_ptr<EventRecord> record_;
};

// A record that is a node of a graph: each launch records anew.
class RecordEvent : public Work {
 public:
  explicit RecordEvent(std::shared_ptr<Event> event) : event_(std::move(event)) {}
  void Queued(Stream& stream) override {
    event_->record = std::make_shared<EventRecord>();
    event_->record->fence = stream.Here();
  }
  CUresult Run(Machine&, Stream& stream) override {
    if (event_->record != nullptr) event_->record->time_ns = stream.clock_ns;
    return CUDA_SUCCESS;
  }
  CUgraphNodeType node_type() const override { return CU_GRAPH_NODE_TYPE_EVENT_RECORD; }

 private:
  std::shared_ptr<Event> event_;
};

// A wait that is a node of a graph.
class WaitForRecord : public Work {
 public:
  explicit WaitForRecord(std::shared_ptr<Event> event) : event_(std::move(event)) {}
  std::vector<Fence> After() const override {
    const EventRecord* record = event_->record.get();
    return record == nullptr || record->capture != nullptr ? std::vector<Fence>() : std::vector<Fence>{record->fence};
  }
  CUresult Run(Machine&, Stream&) override { return CUDA_SUCCESS; }
  CUgraphNodeType node_type() const override { return CU_GRAPH_NODE_TYPE_WAIT_EVENT; }

 private:
  std::shared_ptr<Event> event_;
};

// The end of a cuMemAlloc block that was freed in stream order.
class ReleaseBlock : public Work {
 public:
  explicit ReleaseBlock(CUdeviceptr address) : address_(address) {}
  CUresult Run(Machine& machine, Stream& stream) override;

 private:
  CUdeviceptr address_;
};

// The end of memory that a launch of a graph allocated.
class ReleaseGraphMemory : public Work {
 public:
  explicit ReleaseGraphMemory(std::shared_ptr<GraphMemory> memory) : memory_(std::move(memory)) {}
  CUresult Run(Machine&, Stream&) override { return CUDA_SUCCESS; }

 private:
  std::shared_ptr<GraphMemory> memory_;
};

}  // namespace stalloc::simcuda
