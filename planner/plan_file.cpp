// The format of plan files, version 1. All numbers are little-endian.
//
//   byte  0        8       12       16             24             32             40
//         +--------+-------+--------+--------------+--------------+--------------+-------------------------+
//         | magic  |version| zero   | raw_bytes    | stored_bytes | checksum     | payload: one zstd frame |
//         |stallocP| u32=1 | u32    | u64          | u64          | u64          | of stored_bytes bytes   |
//         +--------+-------+--------+--------------+--------------+--------------+-------------------------+
//
//   raw_bytes    of the payload once decompressed: a FlatBuffer of plan.fbs with identifier "SPLN"
//   checksum     XXH3 (64 bit, no seed) of bytes [0, 32) followed by the payload
//
// The payload ends the file. A reader refuses other versions; new fields go to the end of plan.fbs's tables. One golden
// file per version is kept in tests/planner/golden.
#include "planner/plan_file.h"

#include <xxhash.h>
#include <zstd.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "plan_generated.h"
#include "planner/problem_check.h"
#include "planner/whole_file.h"

namespace stalloc::planner {
namespace {

static_assert(std::endian::native == std::endian::little, "the file's numbers are copied as they are");

constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kMaxRawBytes = std::size_t{1} << 29;  // 512 MiB: several million requests
constexpr std::size_t kMaxFileBytes = kMaxRawBytes;

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t zero;
  std::uint64_t raw_bytes;
  std::uint64_t stored_bytes;
  std::uint64_t checksum;
};
static_assert(sizeof(Header) == 40);

std::uint64_t Checksum(const Header& header, std::span<const std::byte> payload) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  XXH3_64bits_update(state.get(), &header, offsetof(Header, checksum));
  XXH3_64bits_update(state.get(), payload.data(), payload.size());
  return XXH3_64bits_digest(state.get());
}

using Requests = flatbuffers::Vector<flatbuffers::Offset<schema::Request>>;

flatbuffers::Offset<Requests> EncodeRequests(flatbuffers::FlatBufferBuilder& builder,
                                             const std::vector<PlannedRequest>& requests) {
  std::vector<flatbuffers::Offset<schema::Request>> encoded;
  encoded.reserve(requests.size());
  for (const PlannedRequest& request : requests) {
    const auto pages = request.slot.pages.empty() ? 0 : builder.CreateVector(request.slot.pages);
    schema::RequestBuilder table(builder);
    table.add_call_site(request.call_site);
    table.add_size_bytes(request.size_bytes);
    table.add_occurrence(request.occurrence);
    table.add_stream(request.stream);
    table.add_begin(request.begin);
    table.add_end(request.end);
    table.add_slot_kind(static_cast<schema::SlotKind>(request.slot.kind));
    table.add_offset_bytes(request.slot.offset_bytes);
    if (!pages.IsNull()) table.add_pages(pages);
    table.add_waits(request.waits);
    table.add_waited_for(request.waited_for);
    table.add_scales(request.scales);
    encoded.push_back(table.Finish());
  }
  return builder.CreateVector(encoded);
}

class Decoder {
 public:
  explicit Decoder(const std::string& name) : name_(name) {}

  std::optional<FileError> Requests_(const Requests* encoded, const char* field, Time period,
                                     std::vector<PlannedRequest>* requests) const {
    if (encoded == nullptr) return std::nullopt;
    requests->reserve(encoded->size());
    for (flatbuffers::uoffset_t i = 0; i < encoded->size(); ++i) {
      const schema::Request* const table = encoded->Get(i);
      PlannedRequest request;
      request.call_site = table->call_site();
      request.size_bytes = table->size_bytes();
      request.occurrence = table->occurrence();
      request.stream = table->stream();
      request.begin = table->begin();
      request.end = table->end();
      const auto kind = static_cast<std::uint8_t>(table->slot_kind());
      request.slot.kind = static_cast<Slot::Kind>(kind);
      request.slot.offset_bytes = table->offset_bytes();
      if (table->pages() != nullptr) request.slot.pages.assign(table->pages()->begin(), table->pages()->end());
      request.waits = table->waits();
      request.waited_for = table->waited_for();
      request.scales = table->scales();
      const std::string place = std::string("field ") + field + '[' + std::to_string(i) + ']';
      if (kind > static_cast<std::uint8_t>(Slot::Kind::kPaged)) return Bad(place + ".slot_kind", "unknown kind");
      if (request.slot.kind != Slot::Kind::kNone) {
        if (const char* reason = Senseless(request, period)) return Bad(place, reason);
      }
      requests->push_back(std::move(request));
    }
    return std::nullopt;
  }

  FileError Bad(std::string place, std::string reason) const {
    return {FileError::Kind::kBadInput, name_, std::move(place), std::move(reason)};
  }

 private:
  // Why a request that claims to have a slot cannot have it. period < 0: lifetimes do not matter.
  static const char* Senseless(const PlannedRequest& request, Time period) {
    const Bytes size = request.size_bytes;
    if (size == 0 || size > kMaxTotalBytes) return "a slot for a size of zero or beyond 2^62";
    if (request.slot.kind == Slot::Kind::kRun && request.slot.offset_bytes > kMaxTotalBytes) {
      return "offset_bytes is beyond 2^62";
    }
    if (request.slot.kind == Slot::Kind::kPaged) {
      if (request.slot.offset_bytes >= kPageBytes) return "offset_bytes is beyond the first page";
      if (request.slot.pages.size() != (request.slot.offset_bytes + size - 1) / kPageBytes + 1)
        return "the number of pages does not match size_bytes";
    }
    if (period >= 0) {
      Time length = 0;
      if (request.begin < 0 || request.begin >= period) return "begin lies outside the period";
      if (request.end <= request.begin) return "ends before it begins";
      if (__builtin_sub_overflow(request.end, request.begin, &length) || length > period) {
        return "lives longer than the period";
      }
    }
    return nullptr;
  }

  const std::string& name_;
};

}  // namespace

std::vector<std::byte> EncodePlan(const Plan& plan) {
  flatbuffers::FlatBufferBuilder builder(64 * 1024);
  const auto device = builder.CreateString(plan.device);
  const auto persistent = EncodeRequests(builder, plan.persistent);
  const auto iteration = EncodeRequests(builder, plan.iteration);
  const auto beginning = builder.CreateVector(plan.beginning);
  schema::PlanBuilder table(builder);
  table.add_program(plan.program);
  table.add_device(device);
  table.add_device_ordinal(plan.device_ordinal);
  table.add_period(plan.period);
  table.add_lower_bound_bytes(plan.lower_bound_bytes);
  table.add_height_bytes(plan.height_bytes);
  table.add_page_count(plan.page_count);
  table.add_persistent(persistent);
  table.add_iteration(iteration);
  table.add_rank(plan.rank);
  table.add_configuration(plan.configuration);
  table.add_beginning(beginning);
  schema::FinishPlanBuffer(builder, table.Finish());

  std::vector<std::byte> contents(sizeof(Header) + ZSTD_compressBound(builder.GetSize()));
  const std::size_t stored = ZSTD_compress(contents.data() + sizeof(Header), contents.size() - sizeof(Header),
                                           builder.GetBufferPointer(), builder.GetSize(), 3);
  // ZSTD_compress fails only for want of room, which compressBound rules out, or of memory.
  if (ZSTD_isError(stored)) throw std::bad_alloc();
  contents.resize(sizeof(Header) + stored);
  Header header{};
  std::memcpy(header.magic, kPlanFileMagic, sizeof(header.magic));
  header.version = kVersion;
  header.raw_bytes = builder.GetSize();
  header.stored_bytes = stored;
  header.checksum = Checksum(header, std::span(contents).subspan(sizeof(Header)));
  std::memcpy(contents.data(), &header, sizeof(header));
  return contents;
}

Result<Plan> DecodePlan(std::span<const std::byte> contents, const std::string& name) {
  const Decoder decoder(name);
  const auto bad = [&](std::size_t byte, std::string reason) {
    return decoder.Bad("byte " + std::to_string(byte), std::move(reason));
  };
  Header header{};
  if (contents.size() < sizeof(header)) return bad(contents.size(), "truncated: the header has 40 bytes");
  std::memcpy(&header, contents.data(), sizeof(header));
  if (std::memcmp(header.magic, kPlanFileMagic, sizeof(header.magic)) != 0) return bad(0, "not a plan file");
  if (header.version != kVersion) {
    return bad(8, "version " + std::to_string(header.version) + ", this program reads version 1");
  }
  if (header.raw_bytes > kMaxRawBytes) return bad(16, "says that it holds more than 512 MiB");
  const std::span<const std::byte> payload = contents.subspan(sizeof(header));
  if (header.stored_bytes > payload.size()) return bad(contents.size(), "truncated");
  if (header.stored_bytes < payload.size()) return bad(sizeof(header) + header.stored_bytes, "bytes after the end");
  if (Checksum(header, payload) != header.checksum) return bad(32, "checksum does not match: damaged");

  const std::unique_ptr<std::byte[]> raw(new std::byte[header.raw_bytes + 1]);
  const std::size_t got = ZSTD_decompress(raw.get(), header.raw_bytes, payload.data(), payload.size());
  if (ZSTD_isError(got)) return bad(sizeof(header), std::string("zstd: ") + ZSTD_getErrorName(got));
  if (got != header.raw_bytes) return bad(16, "holds less than it says");
  const auto* const buffer = reinterpret_cast<const std::uint8_t*>(raw.get());
  flatbuffers::Verifier verifier(buffer, got, 16, static_cast<flatbuffers::uoffset_t>(kMaxRawBytes / 16));
  if (!schema::VerifyPlanBuffer(verifier)) return bad(sizeof(header), "payload is not a plan");

  const schema::Plan* const table = schema::GetPlan(buffer);
  Plan plan;
  plan.program = table->program();
  if (table->device() != nullptr) plan.device = table->device()->str();
  plan.device_ordinal = table->device_ordinal();
  plan.period = table->period();
  plan.lower_bound_bytes = table->lower_bound_bytes();
  plan.height_bytes = table->height_bytes();
  plan.page_count = table->page_count();
  plan.rank = table->rank();
  plan.configuration = table->configuration();
  if (plan.period < 0) return decoder.Bad("field period", "negative");
  if (const auto* const beginning = table->beginning()) {
    if (beginning->size() > kLongestBeginning) return decoder.Bad("field beginning", "more than 2^15 requests");
    plan.beginning.assign(beginning->begin(), beginning->end());
  }
  if (auto error = decoder.Requests_(table->persistent(), "persistent", -1, &plan.persistent)) return *error;
  if (auto error = decoder.Requests_(table->iteration(), "iteration", plan.period, &plan.iteration)) return *error;
  return plan;
}

std::optional<FileError> WritePlanFile(const std::string& path, const Plan& plan, bool overwrite) {
  return WriteWholeFile(path, EncodePlan(plan), overwrite);
}

Result<Plan> ReadPlanFile(const std::string& path) {
  const auto contents = ReadWholeFile(path, kMaxFileBytes);
  if (!contents) return contents.error();
  return DecodePlan(*contents, path);
}

}  // namespace stalloc::planner
