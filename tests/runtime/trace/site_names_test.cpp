#include "trace/site_names.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/call_sites/call_site.h"

namespace stalloc::runtime {
namespace {

using std::chrono::milliseconds;

[[gnu::noinline]] std::uint64_t OneSite() {
  const std::uint64_t site = CallSiteHash(8);
  asm volatile("" ::: "memory");  // no tail call: this function stays on the stack
  return site;
}
[[gnu::noinline]] std::uint64_t AnotherSite() {
  const std::uint64_t site = CallSiteHash(8);
  asm volatile("" ::: "memory");
  return site;
}

TEST(SiteNames, EachCallSiteIsNamedOnceHoweverLittleTimeThereIs) {
  if (LoadUnwinder() == Unwinder::kNone) GTEST_SKIP() << "nothing walks the stack here";
  const std::uint64_t first = OneSite();
  const std::uint64_t second = AnotherSite();
  ASSERT_NE(first, second);
  SiteNames names;
  for (const std::uint64_t site : {first, std::uint64_t{0}, second, first}) names.Saw(site);
  names.Saw(12345);  // of no stack that was walked
  std::vector<planner::CallSiteFrames> named;
  int calls = 0;
  for (; named.size() < 2 && calls < 100; ++calls) {
    names.Name(milliseconds(0));
    for (planner::CallSiteFrames& site : names.TakeNamed()) named.push_back(std::move(site));
  }
  ASSERT_EQ(named.size(), 2u);
  EXPECT_GT(calls, 2) << "an address at a time";
  EXPECT_EQ(named[0].call_site, first);
  EXPECT_EQ(named[1].call_site, second);
  for (const planner::CallSiteFrames& site : named) {
    EXPECT_GE(site.frames.size(), 2u);
    EXPECT_TRUE(std::none_of(site.frames.begin(), site.frames.end(), [](const auto& frame) { return frame.empty(); }));
  }
  EXPECT_NE(named[0].frames, named[1].frames);
  names.Saw(second);
  names.Name(milliseconds(1000));
  EXPECT_TRUE(names.TakeNamed().empty());
}

}  // namespace
}  // namespace stalloc::runtime
