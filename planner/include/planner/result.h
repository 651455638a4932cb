// What reading or writing a file comes to: a value, or an error that names the file, the place in it and the reason.
#pragma once

#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

namespace stalloc::planner {

struct FileError {
  enum class Kind {
    kIo,        // the system refused: no such file, no space, ...
    kBadInput,  // the contents are not what they must be
  };
  Kind kind = Kind::kIo;
  std::string file;
  std::string place;  // "line 12", "byte 4096", "field iteration[3].slot"; empty: the file as a whole
  std::string reason;

  // "events.csv: line 12: size is zero"
  std::string Text() const { return file + ": " + (place.empty() ? "" : place + ": ") + reason; }
};

// The system refused with `code`, an errno: "events.csv: open: No such file or directory".
inline FileError SystemError(const std::string& file, std::string_view doing, int code) {
  return {FileError::Kind::kIo, file, "", std::string(doing) + ": " + std::generic_category().message(code)};
}

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}          // NOLINT: a value is a result
  Result(FileError error) : state_(std::move(error)) {}  // NOLINT: and so is an error

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }
  T& value() { return std::get<T>(state_); }
  const T& value() const { return std::get<T>(state_); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const FileError& error() const { return std::get<FileError>(state_); }

 private:
  std::variant<T, FileError> state_;
};

}  // namespace stalloc::planner
