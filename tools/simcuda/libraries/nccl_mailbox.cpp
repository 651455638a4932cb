#include "nccl_mailbox.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <system_error>

namespace stalloc::simcuda::libraries {
namespace {

constexpr std::chrono::seconds kPatience{120};

struct Header {
  std::int32_t sender;
  std::int32_t reserved;
  std::uint64_t sequence;
  std::uint64_t size_bytes;
};

// A name in the abstract namespace, which goes with the process.
socklen_t Address(const std::string& token, int rank, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  const std::string name = "stalloc-nccl-" + token + "-" + std::to_string(rank);
  std::memcpy(address->sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

bool WriteAll(int socket, const void* data, std::size_t size) {
  const auto* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = send(socket, bytes, size, MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

bool ReadAll(int socket, void* data, std::size_t size) {
  auto* bytes = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = read(socket, bytes, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace

Mailbox::Mailbox(std::string token, int rank) : token_(std::move(token)), rank_(rank) {
  sockaddr_un address;
  const socklen_t length = Address(token_, rank_, &address);
  listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener_ < 0 || bind(listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(listener_, 128) != 0 || pipe(wake_) != 0) {
    const int error = errno;
    if (listener_ >= 0) close(listener_);
    throw std::system_error(error, std::generic_category(), "the stand-in for NCCL cannot listen on a Unix socket");
  }
  sender_ = std::thread([this] { SendAll(); });
  receiver_ = std::thread([this] { ReceiveAll(); });
}

Mailbox::~Mailbox() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  posted_.notify_all();
  arrived_.notify_all();
  sender_.join();
  close(wake_[1]);
  receiver_.join();
  close(wake_[0]);
  close(listener_);
  for (const auto& [peer, socket] : sockets_) close(socket);
}

void Mailbox::Post(int receiver, std::uint64_t sequence, std::function<Bytes()> make) {
  {
    const std::lock_guard lock(mutex_);
    letters_.push_back({receiver, sequence, std::move(make)});
  }
  posted_.notify_one();
}

std::optional<Bytes> Mailbox::Take(int sender, std::uint64_t sequence) {
  std::unique_lock lock(mutex_);
  const auto arrived = [&] { return closing_ || kept_.count({sender, sequence}) != 0; };
  if (!arrived_.wait_for(lock, kPatience, arrived) || closing_) return std::nullopt;
  auto node = kept_.extract({sender, sequence});
  return std::move(node.mapped());
}

void Mailbox::Keep(int sender, std::uint64_t sequence, Bytes bytes) {
  {
    const std::lock_guard lock(mutex_);
    kept_[{sender, sequence}] = std::move(bytes);
  }
  arrived_.notify_all();
}

// Waits for the peer to listen: it may still be starting.
int Mailbox::SocketTo(int receiver) {
  const auto found = sockets_.find(receiver);
  if (found != sockets_.end()) return found->second;
  sockaddr_un address;
  const socklen_t length = Address(token_, receiver, &address);
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < until) {
    const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection < 0) return -1;
    if (connect(connection, reinterpret_cast<sockaddr*>(&address), length) == 0) {
      sockets_[receiver] = connection;
      return connection;
    }
    close(connection);
    {
      const std::lock_guard lock(mutex_);
      if (closing_) return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return -1;
}

void Mailbox::SendAll() {
  for (;;) {
    std::unique_lock lock(mutex_);
    posted_.wait(lock, [&] { return closing_ || !letters_.empty(); });
    if (letters_.empty()) return;
    const Letter letter = std::move(letters_.front());
    letters_.pop_front();
    lock.unlock();
    Bytes bytes = letter.make();
    if (letter.receiver == rank_) {
      Keep(rank_, letter.sequence, std::move(bytes));
      continue;
    }
    const Header header = {rank_, 0, letter.sequence, bytes.size()};
    const int connection = SocketTo(letter.receiver);
    // A receiver that has ended wants nothing more.
    if (connection >= 0 && WriteAll(connection, &header, sizeof header)) {
      WriteAll(connection, bytes.data(), bytes.size());
    }
  }
}

bool Mailbox::ReceiveOne(int socket) {
  Header header;
  if (!ReadAll(socket, &header, sizeof header)) return false;
  Bytes bytes(header.size_bytes);
  if (!ReadAll(socket, bytes.data(), bytes.size())) return false;
  Keep(header.sender, header.sequence, std::move(bytes));
  return true;
}

void Mailbox::ReceiveAll() {
  std::vector<pollfd> watched = {{wake_[0], POLLIN, 0}, {listener_, POLLIN, 0}};
  for (;;) {
    if (poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR) break;
    if (watched[0].revents != 0) break;
    for (std::size_t i = watched.size(); i-- > 2;) {
      if (watched[i].revents == 0 || ReceiveOne(watched[i].fd)) continue;
      close(watched[i].fd);
      watched.erase(watched.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (watched[1].revents == 0) continue;
    const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection >= 0) watched.push_back({connection, POLLIN, 0});
  }
  for (std::size_t i = 2; i < watched.size(); ++i) close(watched[i].fd);
}

}  // namespace stalloc::simcuda::libraries
