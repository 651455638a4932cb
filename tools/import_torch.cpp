// ImportTorchSnapshot, declared in tools/import.h: a dictionary with "segments", what there is at the end, and
// "device_traces", a list of what happened for each device. The history is bounded: what is live at the end, or freed
// in it, without being allocated in it, was allocated before.
#include <cstring>

#include "planner/unpacked_file.h"
#include "tools/import.h"
#include "tools/load.h"
#include "tools/pickle_reader.h"

namespace stalloc::tools {
namespace {

using Kind = PickleValue::Kind;

std::vector<std::byte> ReadAll(const std::string& path) {
  constexpr std::size_t kMostBytes = std::size_t{4} << 30;
  const auto file = Take(planner::UnpackedFile::Open(path));
  std::vector<std::byte> bytes;
  for (std::size_t got = 1; got != 0;) {
    const std::size_t had = bytes.size();
    bytes.resize(had + (std::size_t{1} << 20));
    got = Take(file->Read(bytes.data() + had, bytes.size() - had));
    bytes.resize(had + got);
    if (bytes.size() > kMostBytes) throw Failure(ExitCode::kBadInput, path + ": larger than 4 GiB");
  }
  return bytes;
}

class Snapshot {
 public:
  Snapshot(const std::string& path, const Pickle& pickle) : path_(path), pickle_(pickle) {}

  planner::Trace Read() {
    const PickleValue& segments = List(pickle_.root(), "segments", "the snapshot");
    const PickleValue& traces = List(pickle_.root(), "device_traces", "the snapshot");
    for (std::size_t device = 0; device < traces.items.size(); ++device) {
      const PickleValue& entries = pickle_[traces.items[device]];
      const std::string where = "device_traces[" + std::to_string(device) + "]";
      if (entries.kind != Kind::kList) Refuse(where + " is no list");
      for (std::size_t i = 0; i < entries.items.size(); ++i)
        ReadEntry(static_cast<unsigned>(device), pickle_[entries.items[i]], where + "[" + std::to_string(i) + "]");
    }
    for (std::size_t i = 0; i < segments.items.size(); ++i)
      ReadSegment(pickle_[segments.items[i]], "segments[" + std::to_string(i) + "]");
    return builder_.Take();
  }

 private:
  [[noreturn]] void Refuse(const std::string& what) const { throw Failure(ExitCode::kBadInput, path_ + ": " + what); }

  const PickleValue& Of(const PickleValue& dictionary, const char* name, Kind kind, const std::string& where) const {
    const PickleValue* const member = pickle_.Member(dictionary, name);
    if (member == nullptr || member->kind != kind)
      Refuse(where + " has no \"" + name + "\" as a snapshot of torch.cuda.memory has");
    return *member;
  }
  const PickleValue& List(const PickleValue& of, const char* name, const std::string& where) const {
    return Of(of, name, Kind::kList, where);
  }
  std::uint64_t Number(const PickleValue& of, const char* name, const std::string& where) const {
    return static_cast<std::uint64_t>(Of(of, name, Kind::kInteger, where).integer);
  }
  std::uint64_t NumberOr0(const PickleValue& of, const char* name) const {
    const PickleValue* const member = pickle_.Member(of, name);
    return member == nullptr ? 0 : static_cast<std::uint64_t>(member->integer);
  }

  // Lists of frames are shared by the requests of one place.
  std::uint64_t CallSiteOf(const PickleValue& of) {
    const PickleValue* const list = pickle_.Member(of, "frames");
    if (list == nullptr || list->kind != Kind::kList) return 0;
    const auto [known, fresh] = call_sites_.try_emplace(list, 0);
    if (!fresh) return known->second;
    std::vector<std::string> frames;
    for (const std::uint32_t item : list->items) {
      const PickleValue* const name = pickle_.Member(pickle_[item], "name");
      const PickleValue* const file = pickle_.Member(pickle_[item], "filename");
      if (name == nullptr || file == nullptr) continue;
      frames.push_back(std::string(name->text) + " (" + std::string(file->text) + ":" +
                       std::to_string(NumberOr0(pickle_[item], "line")) + ")");
    }
    return known->second = builder_.CallSite(std::move(frames));
  }

  void ReadEntry(unsigned device, const PickleValue& entry, const std::string& where) {
    const std::string_view action = Of(entry, "action", Kind::kText, where).text;
    if (action != "alloc" && action != "free_completed") return;
    const std::uint64_t address = Number(entry, "addr", where);
    const std::uint64_t size_bytes = Number(entry, "size", where);
    const std::uint64_t stream = Number(entry, "stream", where);
    const std::uint64_t time_ns = NumberOr0(entry, "time_us") * 1000;
    if (action == "alloc") {
      builder_.Allocate(device, address, size_bytes, stream, 0, CallSiteOf(entry), time_ns);
    } else {
      builder_.Free(device, address, size_bytes, stream, 0, time_ns);
    }
  }

  void ReadSegment(const PickleValue& segment, const std::string& where) {
    const auto device = static_cast<unsigned>(Number(segment, "device", where));
    const std::uint64_t stream = NumberOr0(segment, "stream");
    for (const std::uint32_t item : List(segment, "blocks", where).items) {
      const PickleValue& block = pickle_[item];
      const std::string_view state = Of(block, "state", Kind::kText, where + ": a block").text;
      if (state == "inactive") continue;
      const std::uint64_t address = Number(block, "address", where + ": a block");
      if (builder_.IsLive(device, address)) continue;
      const std::uint64_t requested = NumberOr0(block, "requested_size");
      builder_.LiveBefore(device, address, requested != 0 ? requested : Number(block, "size", where + ": a block"),
                          stream, CallSiteOf(block));
    }
  }

  const std::string& path_;
  const Pickle& pickle_;
  TraceBuilder builder_;
  std::unordered_map<const PickleValue*, std::uint64_t> call_sites_;
};

}  // namespace

planner::Trace ImportTorchSnapshot(const std::string& path) {
  const std::vector<std::byte> bytes = ReadAll(path);
  const Pickle pickle(path, bytes);
  return Snapshot(path, pickle).Read();
}

}  // namespace stalloc::tools
