#include "nccl_communicator.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace stalloc::simcuda::libraries {
namespace {

// Objects travel as bytes; of everything else only what a program reads on the host is worth moving.
constexpr std::size_t kMovedBytes = 64 << 10;
constexpr std::size_t kMovedObjectBytes = 64 << 20;

bool Moves(std::size_t size_bytes, int type) {
  return size_bytes > 0 && size_bytes <= (type == kUint8 ? kMovedObjectBytes : kMovedBytes);
}

bool Capturing(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

void CopyOnDevice(CUdeviceptr to, CUdeviceptr from, std::size_t size_bytes, CUstream stream) {
  if (to != from && size_bytes > 0) cuMemcpyDtoDAsync(to, from, size_bytes, stream);
}

// Page-locked memory: copies from it take its bytes when they execute.
class Staging {
 public:
  explicit Staging(std::size_t size_bytes) : size_bytes_(size_bytes) {
    void* memory = nullptr;
    if (cuMemHostAlloc(&memory, std::max<std::size_t>(size_bytes, 1), 0) == CUDA_SUCCESS) {
      data_ = static_cast<char*>(memory);
      std::memset(data_, 0, size_bytes);
    }
  }
  ~Staging() { cuMemFreeHost(data_); }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  char* data() const { return data_; }
  Bytes bytes() const { return Bytes(data_, data_ + size_bytes_); }

 private:
  std::size_t size_bytes_;
  char* data_ = nullptr;
};

// What a rank gives: copied to the host in stream order, then read once the copy is done.
class Contribution {
 public:
  Contribution(CUdeviceptr address, std::size_t size_bytes, CUstream stream) : staging_(size_bytes) {
    cuCtxGetCurrent(&context_);
    cuMemcpyDtoHAsync(staging_.data(), address, size_bytes, stream);
    cuEventCreate(&copied_, CU_EVENT_DISABLE_TIMING);
    cuEventRecord(copied_, stream);
  }
  ~Contribution() { cuEventDestroy(copied_); }
  Contribution(const Contribution&) = delete;
  Contribution& operator=(const Contribution&) = delete;

  Bytes Wait() const {
    cuCtxSetCurrent(context_);
    cuEventSynchronize(copied_);
    return staging_.bytes();
  }
  // On the stream, after the copy.
  Bytes bytes() const { return staging_.bytes(); }

 private:
  Staging staging_;
  CUcontext context_ = nullptr;
  CUevent copied_ = nullptr;
};

// Runs `fill` on the driver's thread in stream order, then copies what it wrote to the device. The memory between is
// freed by a later delivery, once the copy has been made: a host function may not call CUDA.
void Deliver(CUdeviceptr address, std::size_t size_bytes, CUstream stream, std::function<void(char*)> fill) {
  struct Delivery {
    Delivery(std::size_t size, std::function<void(char*)> function) : staging(size), fill(std::move(function)) {}
    ~Delivery() { cuEventDestroy(copied); }
    Staging staging;
    std::function<void(char*)> fill;
    CUevent copied = nullptr;
  };
  static std::mutex mutex;
  static auto& under_way = *new std::vector<std::unique_ptr<Delivery>>();

  auto delivery = std::make_unique<Delivery>(size_bytes, std::move(fill));
  cuLaunchHostFunc(
      stream,
      [](void* argument) {
        auto* self = static_cast<Delivery*>(argument);
        self->fill(self->staging.data());
      },
      delivery.get());
  cuMemcpyHtoDAsync(address, delivery->staging.data(), size_bytes, stream);
  cuEventCreate(&delivery->copied, CU_EVENT_DISABLE_TIMING);
  cuEventRecord(delivery->copied, stream);

  std::vector<std::unique_ptr<Delivery>> done;
  const std::lock_guard lock(mutex);
  for (auto& other : under_way) {
    if (cuEventQuery(other->copied) == CUDA_SUCCESS) done.push_back(std::move(other));
  }
  std::erase(under_way, nullptr);
  under_way.push_back(std::move(delivery));
}

template <typename Number>
void ReduceNumbers(const std::vector<Bytes>& contributions, std::size_t first, std::size_t count, int reduction,
                   char* result) {
  for (std::size_t i = 0; i < count; ++i) {
    Number total{};
    for (std::size_t rank = 0; rank < contributions.size(); ++rank) {
      Number value{};
      const std::size_t offset = (first + i) * sizeof(Number);
      if (contributions[rank].size() < offset + sizeof value) continue;
      std::memcpy(&value, contributions[rank].data() + offset, sizeof value);
      if (rank == 0) {
        total = value;
      } else if (reduction == kMax) {
        total = std::max(total, value);
      } else if (reduction == kMin) {
        total = std::min(total, value);
      } else if (reduction == kProduct) {
        total = static_cast<Number>(total * value);
      } else {
        total = static_cast<Number>(total + value);
      }
    }
    if (reduction == kAverage) total = static_cast<Number>(total / static_cast<Number>(contributions.size()));
    std::memcpy(result + i * sizeof total, &total, sizeof total);
  }
}

// Types that the host cannot add are taken from the first rank.
void ReduceTyped(const std::vector<Bytes>& contributions, std::size_t first, std::size_t count, int type, int reduction,
                 char* result) {
  switch (type) {
    case kInt8:
      return ReduceNumbers<std::int8_t>(contributions, first, count, reduction, result);
    case kUint8:
      return ReduceNumbers<std::uint8_t>(contributions, first, count, reduction, result);
    case kInt32:
      return ReduceNumbers<std::int32_t>(contributions, first, count, reduction, result);
    case kUint32:
      return ReduceNumbers<std::uint32_t>(contributions, first, count, reduction, result);
    case kInt64:
      return ReduceNumbers<std::int64_t>(contributions, first, count, reduction, result);
    case kUint64:
      return ReduceNumbers<std::uint64_t>(contributions, first, count, reduction, result);
    case kFloat32:
      return ReduceNumbers<float>(contributions, first, count, reduction, result);
    case kFloat64:
      return ReduceNumbers<double>(contributions, first, count, reduction, result);
    default: {
      const std::size_t element = DataTypeBytes(type);
      const Bytes& bytes = contributions.front();
      if (bytes.size() >= (first + count) * element) {
        std::memcpy(result, bytes.data() + first * element, count * element);
      }
    }
  }
}

// Messages from rank to rank and those of collectives are counted apart.
constexpr std::uint64_t kPointToPoint = 1ull << 63;

}  // namespace

Communicator::Communicator(std::string token, int rank, int size, bool alone)
    : token_(std::move(token)), rank_(rank), size_(size), alone_(alone || size == 1) {
  sent_.resize(static_cast<std::size_t>(size));
  received_.resize(static_cast<std::size_t>(size));
  if (!alone_) mailbox_ = std::make_unique<Mailbox>(token_, rank_);
}

void Communicator::Exchange(CUdeviceptr send, std::size_t size_bytes, CUdeviceptr receive, std::size_t result_bytes,
                            CUstream stream, Combine combine) {
  const std::uint64_t sequence = collectives_++;
  if (Capturing(stream)) return;
  const auto own = std::make_shared<Contribution>(send, size_bytes, stream);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) mailbox_->Post(peer, sequence, [own] { return own->Wait(); });
  }
  Deliver(receive, result_bytes, stream, [this, own, sequence, combine = std::move(combine)](char* result) {
    std::vector<Bytes> contributions(static_cast<std::size_t>(size_));
    for (int peer = 0; peer < size_; ++peer) {
      Bytes& place = contributions[static_cast<std::size_t>(peer)];
      if (peer == rank_) {
        place = own->bytes();
      } else if (std::optional<Bytes> bytes = mailbox_->Take(peer, sequence)) {
        place = std::move(*bytes);
      } else {
        std::fprintf(stderr, "stalloc: rank %d: nothing came from rank %d for a collective\n", rank_, peer);
      }
    }
    combine(contributions, result);
  });
}

void Communicator::AllGather(CUdeviceptr send, CUdeviceptr receive, std::size_t count, int type, CUstream stream) {
  const std::size_t size_bytes = count * DataTypeBytes(type);
  if (!Moves(size_bytes, type)) return;
  if (alone_) {
    for (int rank = 0; rank < size_; ++rank) {
      CopyOnDevice(receive + static_cast<std::size_t>(rank) * size_bytes, send, size_bytes, stream);
    }
    return;
  }
  Exchange(send, size_bytes, receive, size_bytes * static_cast<std::size_t>(size_), stream,
           [size_bytes](const std::vector<Bytes>& contributions, char* result) {
             for (std::size_t i = 0; i < contributions.size(); ++i) {
               std::memcpy(result + i * size_bytes, contributions[i].data(), contributions[i].size());
             }
           });
}

void Communicator::ReduceInto(CUdeviceptr send, std::size_t count, CUdeviceptr receive, std::size_t first,
                              std::size_t result_count, int type, int reduction, CUstream stream) {
  const std::size_t element = DataTypeBytes(type);
  if (!Moves(count * element, type)) return;
  if (alone_) return CopyOnDevice(receive, send + first * element, result_count * element, stream);
  Exchange(send, count * element, receive, result_count * element, stream,
           [=](const std::vector<Bytes>& contributions, char* result) {
             ReduceTyped(contributions, first, result_count, type, reduction, result);
           });
}

void Communicator::AllReduce(CUdeviceptr send, CUdeviceptr receive, std::size_t count, int type, int reduction,
                             CUstream stream) {
  ReduceInto(send, count, receive, 0, count, type, reduction, stream);
}

void Communicator::Reduce(CUdeviceptr send, CUdeviceptr receive, std::size_t count, int type, int reduction, int root,
                          CUstream stream) {
  ReduceInto(send, count, receive, 0, rank_ == root ? count : 0, type, reduction, stream);
}

void Communicator::ReduceScatter(CUdeviceptr send, CUdeviceptr receive, std::size_t count, int type, int reduction,
                                 CUstream stream) {
  ReduceInto(send, count * static_cast<std::size_t>(size_), receive, count * static_cast<std::size_t>(rank_), count,
             type, reduction, stream);
}

void Communicator::Broadcast(CUdeviceptr send, CUdeviceptr receive, std::size_t count, int type, int root,
                             CUstream stream) {
  const std::size_t size_bytes = count * DataTypeBytes(type);
  if (!Moves(size_bytes, type)) return;
  if (alone_ || rank_ == root) CopyOnDevice(receive, send, size_bytes, stream);
  if (alone_) return;
  const std::uint64_t sequence = collectives_++;
  if (Capturing(stream)) return;
  if (rank_ == root) {
    const auto own = std::make_shared<Contribution>(send, size_bytes, stream);
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank_) mailbox_->Post(peer, sequence, [own] { return own->Wait(); });
    }
    return;
  }
  Deliver(receive, size_bytes, stream, [this, root, sequence, size_bytes](char* result) {
    const std::optional<Bytes> bytes = mailbox_->Take(root, sequence);
    if (bytes) std::memcpy(result, bytes->data(), std::min(bytes->size(), size_bytes));
  });
}

void Communicator::AllToAll(CUdeviceptr send, CUdeviceptr receive, std::size_t count, int type, CUstream stream) {
  const std::size_t size_bytes = count * DataTypeBytes(type);
  for (int peer = 0; peer < size_; ++peer) {
    const std::size_t offset = static_cast<std::size_t>(peer) * size_bytes;
    Send(send + offset, count, type, peer, stream);
  }
  for (int peer = 0; peer < size_; ++peer) {
    const std::size_t offset = static_cast<std::size_t>(peer) * size_bytes;
    if (alone_ && Moves(size_bytes, type))
      CopyOnDevice(receive + offset, send + offset, size_bytes, stream);
    else
      Receive(receive + offset, count, type, peer, stream);
  }
}

void Communicator::Send(CUdeviceptr send, std::size_t count, int type, int peer, CUstream stream) {
  const std::size_t size_bytes = count * DataTypeBytes(type);
  if (alone_ || !Moves(size_bytes, type)) return;
  const std::uint64_t sequence = kPointToPoint | sent_[static_cast<std::size_t>(peer)]++;
  if (Capturing(stream)) return;
  const auto own = std::make_shared<Contribution>(send, size_bytes, stream);
  mailbox_->Post(peer, sequence, [own] { return own->Wait(); });
}

void Communicator::Receive(CUdeviceptr receive, std::size_t count, int type, int peer, CUstream stream) {
  const std::size_t size_bytes = count * DataTypeBytes(type);
  if (alone_ || !Moves(size_bytes, type)) return;
  const std::uint64_t sequence = kPointToPoint | received_[static_cast<std::size_t>(peer)]++;
  if (Capturing(stream)) return;
  Deliver(receive, size_bytes, stream, [this, peer, sequence, size_bytes](char* result) {
    const std::optional<Bytes> bytes = mailbox_->Take(peer, sequence);
    if (bytes)
      std::memcpy(result, bytes->data(), std::min(bytes->size(), size_bytes));
    else
      std::fprintf(stderr, "stalloc: rank %d: nothing came from rank %d\n", rank_, peer);
  });
}

std::vector<Bytes> Communicator::ExchangeOnHost(Bytes own) {
  const std::uint64_t sequence = collectives_++;
  std::vector<Bytes> all(static_cast<std::size_t>(size_));
  for (int peer = 0; peer < size_; ++peer) mailbox_->Post(peer, sequence, [own] { return own; });
  for (int peer = 0; peer < size_; ++peer) {
    all[static_cast<std::size_t>(peer)] = mailbox_->Take(peer, sequence).value_or(Bytes());
  }
  return all;
}

std::unique_ptr<Communicator> Communicator::Split(int color, int key) {
  const std::string token = token_ + "s" + std::to_string(splits_++) + "c" + std::to_string(color);
  if (alone_) return color < 0 ? nullptr : std::make_unique<Communicator>(token, 0, size_, true);
  const int wish[2] = {color, key};
  Bytes own(sizeof wish);
  std::memcpy(own.data(), wish, sizeof wish);
  std::vector<std::pair<int, int>> members;  // key, rank
  const std::vector<Bytes> wishes = ExchangeOnHost(std::move(own));
  for (int rank = 0; rank < size_; ++rank) {
    int other[2] = {-1, 0};
    const Bytes& bytes = wishes[static_cast<std::size_t>(rank)];
    if (bytes.size() == sizeof other) std::memcpy(other, bytes.data(), sizeof other);
    if (other[0] == color) members.emplace_back(other[1], rank);
  }
  if (color < 0) return nullptr;
  std::sort(members.begin(), members.end());
  const auto self = std::find_if(members.begin(), members.end(), [&](const auto& m) { return m.second == rank_; });
  return std::make_unique<Communicator>(token, static_cast<int>(self - members.begin()),
                                        static_cast<int>(members.size()), false);
}

}  // namespace stalloc::simcuda::libraries
