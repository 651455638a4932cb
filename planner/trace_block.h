// The format of trace files, version 3, as trace_writer.cpp writes and trace_reader.cpp reads it: blocks one after
// another to the end of the file, nothing else. All numbers are little-endian. A block is read without any other block.
//
//   byte  0        8       12       16       20       24       28       32        40         48
//         +--------+-------+--------+--------+--------+--------+--------+---------+----------+------------------+
//         | magic  |version|encoding| events | raw    | stored | zero   | number  | checksum | payload          |
//         |stallocT| u32=3 | u32    | u32    | u32    | u32    | u32    | u64     | u64      | of stored bytes  |
//         +--------+-------+--------+--------+--------+--------+--------+---------+----------+------------------+
//
//   encoding   0: the payload is the columns; 1: it is one zstd frame of them; 2: it is one zstd frame of names
//
//   events     1 .. 65536, of names: the lines;  raw = events * 56, of names: at most 4 MiB
//
//   stored     = raw for encoding 0
//
//   number     of the block in its file, from 0: a missing or repeated block is noticed
//
//   checksum   XXH3 (64 bit, no seed) of bytes [0, 40) followed by the payload
//
// Columns, each the values of all events of the block, without gaps:
//
//   op u8 | served u8 | device u8 | flags u8 | stream u32 | thread u32 | reserved u32 |
//   sequence u64 d | block u64 d | size_bytes u64 | call_site u64 | time_ns u64 d
//                                                                            d: difference to the event before
//
// Names, one line a call site: its number in 16 hexadecimal digits and then, each behind a tab, its stack frames as a
// person reads them, the innermost first. They may stand before or behind the events that have the call site.
//
// Version 1 had requests only (op 1 and 2), version 2 no names; both are read as well. One golden file per version is
// kept in tests/planner/golden.
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace stalloc::planner {

constexpr std::uint32_t kTraceVersion = 3;
constexpr std::uint32_t kOldestTraceVersion = 1;
constexpr std::uint32_t kFirstVersionWithNames = 3;
constexpr std::uint32_t kNamesEncoding = 2;
constexpr std::size_t kMaxNamesBytes = std::size_t{4} << 20;

struct TraceBlockHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t encoding;
  std::uint32_t events;
  std::uint32_t raw_bytes;
  std::uint32_t stored_bytes;
  std::uint32_t zero;
  std::uint64_t number;
  std::uint64_t checksum;
};
static_assert(sizeof(TraceBlockHeader) == 48);

struct HashFree {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};
using HashState = std::unique_ptr<XXH3_state_t, HashFree>;

// What the header should say; the payload has its stored_bytes.
inline std::uint64_t ChecksumOf(XXH3_state_t* state, const TraceBlockHeader& header, const std::byte* payload) {
  XXH3_64bits_reset(state);
  XXH3_64bits_update(state, &header, offsetof(TraceBlockHeader, checksum));
  XXH3_64bits_update(state, payload, header.stored_bytes);
  return XXH3_64bits_digest(state);
}

}  // namespace stalloc::planner
