#include "store/doctor.hpp"

#include <gtest/gtest.h>

namespace settle::store {
namespace {

TEST(ClockDifference, IsNoneWithinFiveSeconds) {
    EXPECT_FALSE(clock_difference({.before_ms = 1000, .after_ms = 1010, .database_ms = 1005}));
    EXPECT_FALSE(clock_difference({.before_ms = 100'000, .after_ms = 100'010, .database_ms = 105'010}));
    EXPECT_FALSE(clock_difference({.before_ms = 100'000, .after_ms = 100'010, .database_ms = 95'000}));
}

TEST(ClockDifference, IsNotTheTimeOfASlowAnswer) {
    EXPECT_FALSE(clock_difference({.before_ms = 100'000, .after_ms = 160'000, .database_ms = 155'000}));
}

TEST(ClockDifference, NamesWhoIsAhead) {
    const auto ahead = clock_difference({.before_ms = 100'000, .after_ms = 100'010, .database_ms = 280'010});
    ASSERT_TRUE(ahead);
    EXPECT_EQ(ahead->severity, "info");
    EXPECT_EQ(ahead->finding, "the database's clock is 180 s ahead of this machine's");
    EXPECT_EQ(ahead->detail, R"({"check" : "clock", "difference_ms" : 180000})");
    const auto behind = clock_difference({.before_ms = 100'000, .after_ms = 100'010, .database_ms = 94'999});
    ASSERT_TRUE(behind);
    EXPECT_EQ(behind->finding, "the database's clock is 5 s behind this machine's");
    EXPECT_EQ(behind->detail, R"({"check" : "clock", "difference_ms" : -5001})");
}

TEST(Unsupported, PartsWhatIsSoFromWhatToDo) {
    const auto schema =
        unsupported({.code = Code::unsupported_schema,
                     .message = "the database's schema is version 1, this program needs 2: run settle migrate",
                     .sqlstate = {},
                     .detail = {}});
    EXPECT_EQ(schema.severity, "error");
    EXPECT_EQ(schema.finding, "the database's schema is version 1, this program needs 2");
    EXPECT_EQ(schema.what_to_do, "run settle migrate");
    const auto bare = unsupported({.code = Code::unsupported_schema, .message = "odd", .sqlstate = {}, .detail = {}});
    EXPECT_EQ(bare.finding, "odd");
    EXPECT_FALSE(bare.what_to_do.empty());
}

}  // namespace
}  // namespace settle::store
