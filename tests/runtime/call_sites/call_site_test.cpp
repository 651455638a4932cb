#include "runtime/call_sites/call_site.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "call_site/deep_calls.h"
#include "call_sites/module_map.h"
#include "call_sites/unwinder.h"

namespace stalloc::runtime {
namespace {

constexpr char kModule[] = STALLOC_CALL_SITE_MODULE;
constexpr char kChild[] = STALLOC_CALL_SITE_CHILD;

class CallSite : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(LoadUnwinder(), Unwinder::kNone); }
};

TEST_F(CallSite, OnePlaceIsOneNumber) {
  std::set<std::uint64_t> seen;
  // No deeper than the chain: the compiler may make several call instructions of the one in this loop.
  for (int i = 0; i < 100; ++i) seen.insert(CallThrough(5, &CallSiteHash, 4));
  EXPECT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen.count(0), 0U);
}

TEST_F(CallSite, TwoPlacesAreTwoNumbers) {
  const std::uint64_t one = CallSiteHash(1);
  const std::uint64_t other = CallSiteHash(1);
  EXPECT_NE(one, other);
}

// The chain is longer than the depth: what lies beyond is not looked at.
TEST_F(CallSite, DepthBoundsWhatIsLookedAt) {
  const std::uint64_t here = CallThrough(10, &CallSiteHash, 5);
  const std::uint64_t there = CallThrough(10, &CallSiteHash, 5);
  EXPECT_EQ(here, there);
  const std::uint64_t deep_here = CallThrough(10, &CallSiteHash, 11);
  const std::uint64_t deep_there = CallThrough(10, &CallSiteHash, 11);
  EXPECT_NE(deep_here, deep_there);
}

TEST_F(CallSite, AnyDepthIsSafe) {
  for (int depth : {-5, 0, 1, kMaxStackDepth, 100000}) EXPECT_NE(CallThrough(200, &CallSiteHash, depth), 0U) << depth;
}

TEST_F(CallSite, ThreadsAgree) {
  std::array<std::uint64_t, 8> hashes{};
  std::vector<std::thread> threads;
  for (std::uint64_t& hash : hashes) {
    threads.emplace_back([&hash] {
      for (int i = 0; i < 1000; ++i) {
        const std::uint64_t taken = CallThrough(5, &CallSiteHash, 4);
        if (i > 0 && taken != hash) hash = 0;
        if (i == 0) hash = taken;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::uint64_t hash : hashes) EXPECT_EQ(hash, hashes[0]);
  EXPECT_NE(hashes[0], 0U);
}

[[gnu::noinline]] std::uint64_t OneCaller(HashFunction hash) {
  const std::uint64_t result = hash(1, 0);
  asm volatile("");
  return result;
}

TEST_F(CallSite, FramesOfTheLibraryItselfDoNotShow) {
  void* module = ::dlopen(kModule, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(module, nullptr) << ::dlerror();
  auto load = reinterpret_cast<int (*)()>(::dlsym(module, "Load"));
  auto near = reinterpret_cast<HashFunction>(::dlsym(module, "HashNear"));
  auto far = reinterpret_cast<HashFunction>(::dlsym(module, "HashFar"));
  EXPECT_EQ(near(1, 0), 0U) << "unknown before the unwinder is loaded";
  ASSERT_NE(load(), 0);
  EXPECT_EQ(OneCaller(near), OneCaller(far));
  EXPECT_NE(OneCaller(near), near(1, 0));
}

TEST_F(CallSite, AModuleLoadedLaterIsFound) {
  ASSERT_NE(Locate(reinterpret_cast<std::uintptr_t>(&CallSiteHash)).module, kAnonymousModule);
  const std::string copy = ::testing::TempDir() + "call_site_late_module.so";
  // A copy of the file is another module to the loader, even if an earlier test has loaded the first.
  ASSERT_EQ(std::system((std::string("cp ") + kModule + " " + copy).c_str()), 0);
  void* module = ::dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(module, nullptr) << ::dlerror();
  const CodeLocation late = Locate(reinterpret_cast<std::uintptr_t>(::dlsym(module, "CallBack")));
  EXPECT_NE(late.module, kAnonymousModule);
  EXPECT_NE(late.module, MainModule());
  EXPECT_FALSE(late.own);
  Dl_info info;
  ASSERT_NE(::dladdr(::dlsym(module, "CallBack"), &info), 0);
  EXPECT_EQ(late.offset,
            reinterpret_cast<std::uintptr_t>(info.dli_saddr) - reinterpret_cast<std::uintptr_t>(info.dli_fbase));
  ::dlclose(module);
  std::remove(copy.c_str());
}

TEST_F(CallSite, GeneratedCodeIsAnonymous) {
  void* code = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(code, MAP_FAILED);
  const CodeLocation location = Locate(reinterpret_cast<std::uintptr_t>(code));
  EXPECT_EQ(location.module, kAnonymousModule);
  EXPECT_EQ(location.offset, 0U);
  ::munmap(code, 4096);
}

// Threads look addresses up while others load and unload a module: the snapshots must not tear.
TEST_F(CallSite, LookUpsAndLoadsAtOnce) {
  const auto known = reinterpret_cast<std::uintptr_t>(&CallSiteHash);
  const CodeLocation expected = Locate(known);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&] {
      while (!stop) {
        const CodeLocation location = Locate(known);
        if (location.module != expected.module || location.offset != expected.offset) ++wrong;
        Locate(1);  // unknown: asks the loader whether anything is new
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    void* module = ::dlopen(kModule, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(module, nullptr);
    ::dlclose(module);
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
}

[[gnu::noinline]] int WalkFrom(WalkFunction walk, void** addresses, int count) {
  const int walked = walk(addresses, count);
  asm volatile("");
  return walked;
}

// The fallback must see the frames that libunwind sees.
TEST_F(CallSite, BothUnwindersWalkTheSameStack) {
  const LoadedUnwinder libunwind = FindLibunwind();
  const LoadedUnwinder libgcc = FindLibgcc();
  ASSERT_EQ(libgcc.kind, Unwinder::kLibgcc);
  if (libunwind.kind == Unwinder::kNone) GTEST_SKIP() << "libunwind.so.8 is not installed";
  constexpr int kFrames = 8;
  void* addresses[2][kFrames] = {};
  int counts[2] = {};
  counts[0] = WalkFrom(libunwind.walk, addresses[0], kFrames);
  counts[1] = WalkFrom(libgcc.walk, addresses[1], kFrames);
  EXPECT_EQ(counts[0], kFrames);
  EXPECT_EQ(counts[1], kFrames);
  for (int frame = 0; frame < kFrames; ++frame) {
    if (frame == 1) continue;  // the two calls above
    // Ubuntu 22.04's libunwind names the last byte of the call where others name the address that it returns to.
    const auto by_libunwind = reinterpret_cast<std::uintptr_t>(addresses[0][frame]);
    const auto by_libgcc = reinterpret_cast<std::uintptr_t>(addresses[1][frame]);
    EXPECT_LE(by_libgcc - by_libunwind, 1u) << frame;
  }
}

std::vector<std::string> LinesOf(const std::string& command) {
  std::vector<std::string> lines;
  FILE* pipe = ::popen(command.c_str(), "r");
  char line[256];
  while (pipe != nullptr && std::fgets(line, sizeof(line), pipe) != nullptr) lines.emplace_back(line);
  EXPECT_EQ(pipe != nullptr ? ::pclose(pipe) : -1, 0) << command;
  return lines;
}

TEST_F(CallSite, TheSameInEveryRun) {
  const std::string command = std::string(kChild) + " " + kModule;
  const std::vector<std::string> first = LinesOf(command);
  std::vector<std::string> second = LinesOf(command);
  ASSERT_EQ(first.size(), 7U);
  ASSERT_EQ(second.size(), 7U);
  for (int tries = 0; tries < 3 && first[0] == second[0]; ++tries) second = LinesOf(command);
  if (first[0] == second[0]) GTEST_SKIP() << "address randomisation is off on this machine";
  for (std::size_t i = 1; i < first.size(); ++i) EXPECT_EQ(first[i], second[i]) << "line " << i;
  EXPECT_EQ(std::set<std::string>(first.begin() + 2, first.end()).size(), 5U) << "five places, five numbers";
}

}  // namespace
}  // namespace stalloc::runtime
