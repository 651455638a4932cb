// NeverDestroyed: an object of the process that is there before every constructor and after every destructor.
//
// Hooks run in both. It is initialised as a constant, so its first use needs no memory of the host's and cannot fail.
#pragma once

namespace stalloc::runtime {

template <typename T>
class NeverDestroyed {
 public:
  constexpr NeverDestroyed() : value_{} {}
  constexpr ~NeverDestroyed() {}  // not defaulted: the union's member stays as it is

  T& get() noexcept { return value_; }

 private:
  union {
    T value_;
  };
};

}  // namespace stalloc::runtime
