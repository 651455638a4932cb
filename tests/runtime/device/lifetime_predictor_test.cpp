// LifetimePredictor: what came before tells requests of one size apart.
#include "runtime/device/lifetime_predictor.h"

#include <gtest/gtest.h>

#include <vector>

namespace stalloc::runtime {
namespace {

constexpr Granule kPage = kPageGranules;

struct Request {
  Granule granules;
  bool lasts;
};

class LifetimePredictorTest : public ::testing::Test {
 protected:
  // Goes through the requests and returns how many were guessed wrong.
  unsigned Go(const std::vector<Request>& requests) {
    unsigned wrong = 0;
    for (const Request& request : requests) {
      const LifetimePredictor::Path path = predictor_.Follow(request.granules);
      const bool guess = predictor_.Lasts(path).value_or(false);
      wrong += guess == request.lasts ? 0 : 1;
      predictor_.Learn(path, guess, request.lasts);
    }
    return wrong;
  }

  LifetimePredictor predictor_;
};

TEST_F(LifetimePredictorTest, SaysNothingOfWhatItHasNotSeen) {
  EXPECT_EQ(predictor_.Lasts(predictor_.Follow(kPage)), std::nullopt);
}

TEST_F(LifetimePredictorTest, BlocksOfTwoSizesAreToldApartByThem) {
  const std::vector<Request> iteration{{8 * kPage, true}, {kPage, false}, {kPage, false}};
  Go(iteration);
  EXPECT_EQ(Go(iteration), 0u);
}

TEST_F(LifetimePredictorTest, BlocksOfOneSizeByWhatCameBefore) {
  // Four of a size, of which the third lasts.
  const std::vector<Request> iteration{{64, false},       {8 * kPage, false}, {8 * kPage, false},
                                       {8 * kPage, true}, {8 * kPage, false}, {2 * kPage, false}};
  for (int i = 0; i < 8; ++i) Go(iteration);
  EXPECT_EQ(Go(iteration), 0u);
}

TEST_F(LifetimePredictorTest, BlocksOfOneSizeByWhatEndedBefore) {
  const auto iterate = [&] {
    unsigned wrong = 0;
    for (const bool lasts : {false, true}) {
      if (lasts) predictor_.NoteFree();
      wrong += Go({{8 * kPage, lasts}});
    }
    return wrong;
  };
  // One after the other until there are too many to be told by their number.
  for (int i = 0; i < 8; ++i) iterate();
  EXPECT_EQ(iterate(), 0u);
}

TEST_F(LifetimePredictorTest, SizesMayDifferALittle) {
  const auto iteration = [](Granule more) {
    return std::vector<Request>{
        {1024, false}, {5 * kPage + more, true}, {5 * kPage + 2 * more, false}, {17 * kPage + 3 * more, true}};
  };
  for (Granule i = 0; i < 8; ++i) Go(iteration(i * 100));
  EXPECT_EQ(Go(iteration(1234)), 0u);
}

TEST_F(LifetimePredictorTest, FollowsAProgramThatChanges) {
  const std::vector<Request> before{{8 * kPage, true}, {kPage, false}};
  const std::vector<Request> after{{8 * kPage, false}, {kPage, true}};
  for (int i = 0; i < 8; ++i) Go(before);
  for (int i = 0; i < 8; ++i) Go(after);
  EXPECT_EQ(Go(after), 0u);
}

}  // namespace
}  // namespace stalloc::runtime
