// Who may access a device's memory, and by whose word: what the words come to together.
#include "runtime/pages/peer_access.h"

#include <gtest/gtest.h>

namespace stalloc::runtime {
namespace {

CUcontext Context(std::uintptr_t number) { return reinterpret_cast<CUcontext>(number); }

TEST(PeerAccess, EitherWordOpens) {
  PeerAccess access;
  EXPECT_FALSE(access.MayUse(3));
  access.Enable(3, Context(1));
  access.SetPool(3, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_TRUE(access.MayUse(3));
  access.Disable(3, Context(1));
  EXPECT_TRUE(access.MayUse(3));
  access.SetPool(3, CU_MEM_ACCESS_FLAGS_PROT_READ);
  EXPECT_FALSE(access.MayUse(3));
  EXPECT_EQ(access.FlagsOf(3), CU_MEM_ACCESS_FLAGS_PROT_READ);
  EXPECT_FALSE(access.MayUse(2));
}

// Its handle may come back for another context before it is known whether it has ended.
TEST(PeerAccess, ContextsThatEndTakeTheirWordBackOnceTheyHave) {
  PeerAccess access;
  access.Enable(3, Context(1));
  access.ContextEnds(Context(1));
  EXPECT_TRUE(access.MayUse(3));
  EXPECT_EQ(access.ContextEnded(Context(1), false), 3);
  EXPECT_EQ(access.ContextEnded(Context(1), false), -1);
  EXPECT_TRUE(access.MayUse(3)) << "the driver has refused";
  access.ContextEnds(Context(1));
  access.Enable(3, Context(1));  // another one
  EXPECT_EQ(access.ContextEnded(Context(1), true), 3);
  EXPECT_EQ(access.ContextEnded(Context(1), true), -1);
  EXPECT_TRUE(access.MayUse(3)) << "the other one's";
  access.ContextEnds(Context(1));
  EXPECT_EQ(access.ContextEnded(Context(1), true), 3);
  EXPECT_FALSE(access.MayUse(3));
}

// Between the two, another thread must not take it that what is mapped can be reached.
TEST(PeerAccess, WhatIsBeingOpenedIsNotReliedOn) {
  PeerAccess access;
  const std::uint64_t before = access.version();
  access.Open(1);
  EXPECT_EQ(access.FlagsOf(1), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);  // what is mapped from now on
  EXPECT_GT(access.version(), before);
  EXPECT_FALSE(access.MayUse(1));
  access.Open(1);
  EXPECT_FALSE(access.MayUse(1));
  access.Opened(1, true);
  EXPECT_TRUE(access.MayUse(1) && !access.Refused(1));
  access.Open(1);
  EXPECT_TRUE(access.MayUse(1)) << "it was open already";
  access.Enable(1, Context(7));
  access.Disable(1, Context(7));
  EXPECT_TRUE(access.MayUse(1)) << "opened for good";
}

TEST(PeerAccess, ARefusalIsRememberedUntilTheProgramItselfEnables) {
  PeerAccess access;
  access.Open(1);
  access.Opened(1, false);
  EXPECT_TRUE(access.Refused(1));
  EXPECT_FALSE(access.MayUse(1));
  access.Enable(1, Context(7));
  EXPECT_TRUE(access.MayUse(1));
  access.Enable(2, Context(8));
  access.Open(2);
  EXPECT_TRUE(access.MayUse(2)) << "it had access by another word";
}

}  // namespace
}  // namespace stalloc::runtime
