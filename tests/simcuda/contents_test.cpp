// Contents as intervals against the same writes byte by byte.
#include "contents.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace stalloc::simcuda {
namespace {

// A byte of the reference: which write it came from, and what the byte is.
struct Reference {
  std::uint64_t tag = 0;
  std::uint8_t byte = 0;
};

TEST(Contents, IntervalsAgreeWithBytes) {
  constexpr std::uint64_t kSize = 96;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    Contents contents(kSize);
    std::vector<Reference> reference(kSize);
    for (int step = 0; step < 40; ++step) {
      const std::uint64_t begin = random() % kSize;
      const std::uint64_t size = 1 + random() % (kSize - begin);
      if (random() % 2 == 0) {
        const std::uint64_t tag = 1 + random() % 3;
        contents.Write(begin, size, TagContent(tag));
        for (std::uint64_t i = begin; i < begin + size; ++i) reference[i] = {tag, TagContent(tag).ByteAt(i)};
      } else {
        std::vector<std::uint8_t> bytes(size);
        for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random() % 3);
        contents.Write(begin, size, HostContent(bytes.data(), size, begin));
        for (std::uint64_t i = 0; i < size; ++i) reference[begin + i] = {0, bytes[i]};
      }
      std::uint64_t next = 0;
      for (const Contents::Piece& piece : contents.Read(0, kSize)) {
        ASSERT_EQ(piece.offset, next) << "no gap, no overlap";
        next += piece.size_bytes;
        for (std::uint64_t i = piece.offset; i < next; ++i) ASSERT_EQ(piece.content.ByteAt(i), reference[i].byte) << i;
      }
      ASSERT_EQ(next, kSize);
      const auto other = contents.FindOther(begin, size, 1);
      std::uint64_t first = begin;
      while (first < begin + size && reference[first].tag == 1) ++first;
      ASSERT_EQ(other.has_value(), first < begin + size);
      if (other.has_value()) {
        ASSERT_EQ(other->offset, first);
      }
    }
  }
}

TEST(Contents, EqualNeighboursAreOneInterval) {
  Contents contents(1024);
  for (std::uint64_t i = 0; i < 1024; i += 16) contents.Write(i, 16, TagContent(4));
  EXPECT_EQ(contents.Read(0, 1024).size(), 1u);
}

TEST(Contents, BytesBeyondTheBudgetBecomeATag) {
  std::vector<std::uint8_t> large(300 << 20);
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<std::uint8_t>(i);
  EXPECT_EQ(HostContent(large.data(), large.size(), 0).kind, Content::Kind::kTag);
  EXPECT_EQ(HostContent(large.data(), 4096, 0).kind, Content::Kind::kBytes);
  EXPECT_EQ(ByteBuffer::TotalBytes(), 0u) << "nothing is kept once nobody refers to it";
}

}  // namespace
}  // namespace stalloc::simcuda
