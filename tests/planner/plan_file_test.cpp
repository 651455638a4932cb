#include "planner/plan_file.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstring>

#include "files.h"

namespace stalloc::planner {
namespace {

Plan ExamplePlan() {
  Plan plan;
  plan.program = 0x1234567890abcdef;
  plan.device = "NVIDIA H200";
  plan.device_ordinal = 3;
  plan.period = 6;
  plan.lower_bound_bytes = 5 * kPageBytes;
  plan.height_bytes = 6 * kPageBytes;
  plan.page_count = 6;
  plan.persistent.resize(1);
  plan.persistent[0].size_bytes = kPageBytes;
  plan.persistent[0].slot.kind = Slot::Kind::kRun;
  PlannedRequest run;
  run.call_site = 77;
  run.size_bytes = 4096;
  run.occurrence = 2;
  run.stream = 1;
  run.begin = 0;
  run.end = 3;
  run.slot.kind = Slot::Kind::kRun;
  run.slot.offset_bytes = kPageBytes;
  PlannedRequest paged = run;
  paged.size_bytes = 2 * kPageBytes + 1;
  paged.begin = 4;
  paged.end = 8;
  paged.slot = {Slot::Kind::kPaged, 0, {5, 2, 3}};
  PlannedRequest unplanned;
  unplanned.begin = 5;
  unplanned.end = 100;
  plan.iteration = {run, paged, unplanned};
  return plan;
}

std::span<const std::byte> Bytes_(const std::string& text) { return std::as_bytes(std::span(text)); }

TEST(PlanFile, ComesBackAsWritten) {
  const TemporaryFolder folder;
  ASSERT_EQ(WritePlanFile(folder / "plan", ExamplePlan()), std::nullopt);
  const auto plan = ReadPlanFile(folder / "plan");
  ASSERT_TRUE(plan.ok()) << plan.error().Text();
  EXPECT_EQ(*plan, ExamplePlan());
}

TEST(PlanFile, TheRankAndTheConfigurationThatMadeItComeBack) {
  Plan plan = ExamplePlan();
  plan.rank = 7;
  plan.configuration = 0x123456789abcdef0;
  const auto decoded = DecodePlan(EncodePlan(plan), "memory");
  ASSERT_TRUE(decoded.ok()) << decoded.error().Text();
  EXPECT_EQ(*decoded, plan);
  EXPECT_EQ(ReadPlanFile(GoldenPath("plan-v1.bin"))->rank, -1) << "from before ranks were written";
  EXPECT_EQ(ReadPlanFile(GoldenPath("plan-v1.bin"))->configuration, 0u);
}

TEST(PlanFile, HowTheRunBeganThatKeptItComesBack) {
  Plan plan = ExamplePlan();
  plan.beginning = {3 * kPageBytes, kPageBytes + 1, 0x1234567890abcd};
  const auto decoded = DecodePlan(EncodePlan(plan), "memory");
  ASSERT_TRUE(decoded.ok()) << decoded.error().Text();
  EXPECT_EQ(*decoded, plan);
  EXPECT_TRUE(ReadPlanFile(GoldenPath("plan-v1.bin"))->beginning.empty()) << "from before that was written";
  plan.beginning.resize(kLongestBeginning + 1);
  EXPECT_EQ(DecodePlan(EncodePlan(plan), "memory").error().place, "field beginning");
}

TEST(PlanFile, EmptyPlanComesBack) {
  const auto plan = DecodePlan(EncodePlan({}), "memory");
  ASSERT_TRUE(plan.ok()) << plan.error().Text();
  EXPECT_EQ(*plan, Plan{});
}

TEST(PlanFile, ReadsTheGoldenFileOfVersion1) {
  if (const char* folder = WriteGoldenTo()) {
    ASSERT_EQ(WritePlanFile(std::string(folder) + "/plan-v1.bin", ExamplePlan()), std::nullopt);
    GTEST_SKIP() << "golden file written";
  }
  const auto plan = ReadPlanFile(GoldenPath("plan-v1.bin"));
  ASSERT_TRUE(plan.ok()) << plan.error().Text();
  EXPECT_EQ(*plan, ExamplePlan());
}

TEST(PlanFile, RefusesEveryTruncation) {
  const std::vector<std::byte> whole = EncodePlan(ExamplePlan());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto plan = DecodePlan(std::span(whole).first(size), "cut");
    ASSERT_FALSE(plan.ok()) << size;
    EXPECT_EQ(plan.error().kind, FileError::Kind::kBadInput);
    EXPECT_EQ(plan.error().file, "cut");
    EXPECT_NE(plan.error().reason.find("truncated"), std::string::npos) << plan.error().Text();
  }
}

TEST(PlanFile, RefusesEveryFlippedBit) {
  const std::vector<std::byte> whole = EncodePlan(ExamplePlan());
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::vector<std::byte> damaged = whole;
    damaged[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(DecodePlan(damaged, "damaged").ok()) << "bit " << bit;
  }
}

TEST(PlanFile, RefusesForeignHostileAndTrailingBytes) {
  EXPECT_EQ(DecodePlan(Bytes_(std::string(100, 'x')), "f").error().Text(), "f: byte 0: not a plan file");
  std::vector<std::byte> trailing = EncodePlan(ExamplePlan());
  trailing.push_back(std::byte{0});
  EXPECT_NE(DecodePlan(trailing, "f").error().reason.find("bytes after the end"), std::string::npos);
  std::vector<std::byte> hostile = EncodePlan(ExamplePlan());
  const std::uint64_t huge = std::uint64_t{1} << 60;
  std::memcpy(hostile.data() + 16, &huge, sizeof(huge));
  EXPECT_EQ(DecodePlan(hostile, "f").error().place, "byte 16");
  EXPECT_EQ(ReadPlanFile("/nonexistent/plan").error().kind, FileError::Kind::kIo);
}

TEST(PlanFile, NamesTheFieldThatMakesNoSense) {
  const auto refusal = [](auto change) {
    Plan plan = ExamplePlan();
    change(plan);
    const auto decoded = DecodePlan(EncodePlan(plan), "f");
    return decoded.ok() ? std::string("accepted") : decoded.error().Text();
  };
  EXPECT_EQ(refusal([](Plan& plan) { plan.iteration[1].slot.pages.pop_back(); }),
            "f: field iteration[1]: the number of pages does not match size_bytes");
  EXPECT_EQ(refusal([](Plan& plan) { plan.iteration[1].slot.offset_bytes = kPageBytes; }),
            "f: field iteration[1]: offset_bytes is beyond the first page");
  EXPECT_EQ(refusal([](Plan& plan) { plan.iteration[0].begin = 6; }),
            "f: field iteration[0]: begin lies outside the period");
  EXPECT_EQ(refusal([](Plan& plan) { plan.iteration[0].end = 0; }), "f: field iteration[0]: ends before it begins");
  EXPECT_EQ(refusal([](Plan& plan) { plan.iteration[0].end = 7; }),
            "f: field iteration[0]: lives longer than the period");
  EXPECT_EQ(refusal([](Plan& plan) { plan.persistent[0].slot.offset_bytes = ~Bytes{0}; }),
            "f: field persistent[0]: offset_bytes is beyond 2^62");
  EXPECT_EQ(refusal([](Plan& plan) { plan.iteration[0].slot.kind = static_cast<Slot::Kind>(9); }),
            "f: field iteration[0].slot_kind: unknown kind");
  EXPECT_EQ(refusal([](Plan& plan) { plan.period = -1; }), "f: field period: negative");
}

TEST(PlanFile, ReplacesOnlyWhenAskedTo) {
  const TemporaryFolder folder;
  SetContents(folder / "plan", "precious");
  const auto refused = WritePlanFile(folder / "plan", ExamplePlan(), false);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->kind, FileError::Kind::kIo);
  EXPECT_EQ(Contents(folder / "plan"), "precious");
  EXPECT_EQ(WritePlanFile(folder / "plan", ExamplePlan(), true), std::nullopt);
  EXPECT_TRUE(ReadPlanFile(folder / "plan").ok());
  EXPECT_TRUE(WritePlanFile(folder / "no/such/folder", ExamplePlan()).has_value());
}

TEST(PlanFile, AnyPlanComesBack) {
  EXPECT_TRUE(rc::check([] {
    Plan plan;
    plan.period = 100;
    plan.device = *rc::gen::arbitrary<std::string>();
    const auto count = *rc::gen::inRange(0, 20);
    for (int i = 0; i < count; ++i) {
      PlannedRequest request;
      request.waits = *rc::gen::arbitrary<bool>();
      request.waited_for = *rc::gen::arbitrary<bool>();
      request.scales = *rc::gen::arbitrary<bool>();
      request.call_site = *rc::gen::arbitrary<std::uint64_t>();
      request.size_bytes = *rc::gen::inRange<Bytes>(1, 4 * kPageBytes);
      request.begin = *rc::gen::inRange<Time>(0, 100);
      request.end = request.begin + *rc::gen::inRange<Time>(1, 101);
      if (*rc::gen::arbitrary<bool>()) {
        request.slot.kind = Slot::Kind::kPaged;
        request.slot.offset_bytes = *rc::gen::inRange<Bytes>(0, kPageBytes);
        request.slot.pages.resize((request.slot.offset_bytes + request.size_bytes - 1) / kPageBytes + 1);
        for (std::uint32_t& page : request.slot.pages) page = *rc::gen::arbitrary<std::uint32_t>();
      } else {
        request.slot.kind = Slot::Kind::kRun;
        request.slot.offset_bytes = *rc::gen::inRange<Bytes>(0, Bytes{1} << 40);
      }
      plan.iteration.push_back(request);
    }
    const auto decoded = DecodePlan(EncodePlan(plan), "memory");
    RC_ASSERT(decoded.ok());
    RC_ASSERT(*decoded == plan);
  }));
}

}  // namespace
}  // namespace stalloc::planner
