// Mailbox: messages between the processes of one communicator, over Unix sockets of this machine.
//
// A rank listens under a name made of the communicator's token and its number; others connect when they first have
// something to send. Posting never waits for the receiver: a thread of the mailbox sends, in the order of posting.
// Another thread receives and keeps what has come until it is taken. Any thread may call; allocates.
#pragma once

#include <sys/un.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace stalloc::simcuda::libraries {

using Bytes = std::vector<char>;

class Mailbox {
 public:
  // `token` is the same on all ranks and no other communicator's. Throws std::system_error if it cannot listen.
  Mailbox(std::string token, int rank);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // `make` is called on the sending thread; it may wait for the device.
  void Post(int receiver, std::uint64_t sequence, std::function<Bytes()> make);
  // Waits until the message is there; nothing if it has not come after `kPatience`.
  std::optional<Bytes> Take(int sender, std::uint64_t sequence);

 private:
  using Key = std::pair<int, std::uint64_t>;

  struct Letter {
    int receiver;
    std::uint64_t sequence;
    std::function<Bytes()> make;
  };

  void SendAll();
  void ReceiveAll();
  bool ReceiveOne(int socket);
  int SocketTo(int receiver);
  void Keep(int sender, std::uint64_t sequence, Bytes bytes);

  const std::string token_;
  const int rank_;
  int listener_ = -1;
  int wake_[2] = {-1, -1};
  std::mutex mutex_;
  std::condition_variable posted_, arrived_;
  std::deque<Letter> letters_;
  std::map<Key, Bytes> kept_;
  std::map<int, int> sockets_;  // the sending thread's
  bool closing_ = false;
  std::thread sender_, receiver_;
};

}  // namespace stalloc::simcuda::libraries
