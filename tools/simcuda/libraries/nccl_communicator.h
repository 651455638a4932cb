// Communicator: what one rank does in a collective.
//
// Contents move only where a program may look at them: data of up to kMovedBytes (sizes, flags, losses) and bytes of
// objects. They move in stream order, through host memory; large data keeps whatever the receiver's memory held, as
// kernels' results do. With one process for a world of any size (`alone`), a rank's own data stands for that of the
// others. Any thread may call; allocates.
#pragma once

#include <cuda.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nccl_mailbox.h"
#include "nccl_types.h"

namespace stalloc::simcuda::libraries {

class Communicator {
 public:
  Communicator(std::string token, int rank, int size, bool alone);

  int rank() const { return rank_; }
  int size() const { return size_; }

  void AllGather(CUdeviceptr send, CUdeviceptr receive, std::size_t count, int type, CUstream stream);
  void AllReduce(CUdeviceptr send, CUdeviceptr receive, std::size_t count, int type, int reduction, CUstream stream);
  void Reduce(CUdeviceptr send, CUdeviceptr receive, std::size_t count, int type, int reduction, int root,
              CUstream stream);
  void ReduceScatter(CUdeviceptr send, CUdeviceptr receive, std::size_t count, int type, int reduction,
                     CUstream stream);
  void Broadcast(CUdeviceptr send, CUdeviceptr receive, std::size_t count, int type, int root, CUstream stream);
  void AllToAll(CUdeviceptr send, CUdeviceptr receive, std::size_t count, int type, CUstream stream);
  void Send(CUdeviceptr send, std::size_t count, int type, int peer, CUstream stream);
  void Receive(CUdeviceptr receive, std::size_t count, int type, int peer, CUstream stream);

  // The members of this rank's colour, in the order of their keys; null where its colour is negative. All ranks call.
  std::unique_ptr<Communicator> Split(int color, int key);

 private:
  // From all ranks' contributions, in the order of ranks, the result.
  using Combine = std::function<void(const std::vector<Bytes>& contributions, char* result)>;

  // Every rank gives `size_bytes` at `send`, and gets `result_bytes` at `receive`.
  void Exchange(CUdeviceptr send, std::size_t size_bytes, CUdeviceptr receive, std::size_t result_bytes,
                CUstream stream, Combine combine);
  void ReduceInto(CUdeviceptr send, std::size_t count, CUdeviceptr receive, std::size_t first, std::size_t result_count,
                  int type, int reduction, CUstream stream);
  std::vector<Bytes> ExchangeOnHost(Bytes own);

  const std::string token_;
  const int rank_, size_;
  const bool alone_;
  std::uint64_t collectives_ = 0;  // calls so far, which are the same on all ranks
  std::vector<std::uint64_t> sent_, received_;
  int splits_ = 0;
  std::unique_ptr<Mailbox> mailbox_;
};

}  // namespace stalloc::simcuda::libraries
