#include "cli/arguments.hpp"

#include <gtest/gtest.h>

namespace settle::cli {
namespace {

struct Split {
    Arguments left;
    Arguments own;
    bool operator==(const Split&) const = default;
};

Split split(Arguments arguments) {
    Arguments own = split_command(arguments);
    return {.left = std::move(arguments), .own = std::move(own)};
}

TEST(SplitCommand, TakesWhatFollowsTheFirstMarkOfExec) {
    const Split expected{.left = {"exec", "--key", "k"}, .own = {"sh", "--", "--key", ""}};
    EXPECT_EQ(split({"exec", "--key", "k", "--", "sh", "--", "--key", ""}), expected);
}

TEST(SplitCommand, FindsTheCommandBehindTheGlobalOptions) {
    const Split expected{.left = {"--db", "show", "--json", "exec"}, .own = {"x"}};
    EXPECT_EQ(split({"--db", "show", "--json", "exec", "--", "x"}), expected);
}

TEST(SplitCommand, DoesNotTakeAnOptionsValueForTheCommand) {
    const Arguments arguments{"--namespace", "exec", "show", "--", "-k"};
    EXPECT_EQ(split(arguments), (Split{.left = arguments, .own = {}}));
}

TEST(SplitCommand, TakesTheCommandOfLeaseHoldAlone) {
    EXPECT_EQ(split({"lease", "hold", "r", "--", "x"}), (Split{.left = {"lease", "hold", "r"}, .own = {"x"}}));
    const Arguments acquire{"lease", "acquire", "--holder", "h", "--", "-r"};
    EXPECT_EQ(split(acquire), (Split{.left = acquire, .own = {}}));
}

TEST(SplitCommand, LeavesTheRestAlone) {
    for (const Arguments& arguments :
         {Arguments{}, Arguments{"exec"}, Arguments{"--"}, Arguments{"--db", "--", "exec"}}) {
        EXPECT_EQ(split(arguments), (Split{.left = arguments, .own = {}}));
    }
}

TEST(WithEmptyValues, MakesTwoWordsOfAnOptionWithoutAValue) {
    EXPECT_EQ(with_empty_values({"--key=", "x", "--a=b", "--", "--key="}),
              (Arguments{"--key", "", "x", "--a=b", "--", "--key="}));
}

TEST(AsksForJson, OnlyBeforeTheMark) {
    EXPECT_TRUE(asks_for_json({"show", "--json"}));
    EXPECT_FALSE(asks_for_json({"exec", "--", "--json"}));
}

TEST(CheckUtf8, NamesTheOptionOrThePlace) {
    EXPECT_FALSE(check_utf8({"--key", "ü"}).has_value());
    const auto message = [](const Arguments& arguments) { return check_utf8(arguments).value().message; };
    EXPECT_EQ(message({"--key", "\xff"}), "--key: it is not UTF-8");
    EXPECT_EQ(message({"--key=\xff"}), "--key: it is not UTF-8");
    EXPECT_EQ(message({"show", "\xff"}), "argument 2: it is not UTF-8");
}

}  // namespace
}  // namespace settle::cli
