#include "base/clock.hpp"

#include <gtest/gtest.h>

namespace settle {
namespace {

using namespace std::chrono_literals;

TEST(Deadlines, LeaveWholeMillisecondsAndNeverLess) {
    const Deadline ahead = Deadline::in(1h);
    EXPECT_FALSE(ahead.passed());
    EXPECT_GT(ahead.left(), 59min);
    EXPECT_LE(ahead.left(), 1h);
    const Deadline behind = Deadline::at(Clock::now() - 1s);
    EXPECT_TRUE(behind.passed());
    EXPECT_EQ(behind.left(), 0ms);
}

TEST(Deadlines, RoundUpSoThatAWaitIsNeverCutShort) {
    // Half a millisecond is left or, if this thread was held up, none: never a negative number, never more than one.
    const Deadline close = Deadline::in(500us);
    EXPECT_LE(close.left(), 1ms);
    EXPECT_GE(close.left(), 0ms);
    EXPECT_EQ(Deadline::at(close.when()).when(), close.when());
}

TEST(Deadlines, OfAStepLieWithinTheCallers) {
    const Deadline near = Deadline::in(1s);
    EXPECT_EQ(near.at_most(1h).when(), near.when());
    EXPECT_LT(Deadline::never().at_most(1h).left(), 2h);
    EXPECT_FALSE(Deadline::never().passed());
}

}  // namespace
}  // namespace settle
