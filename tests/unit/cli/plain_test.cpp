#include "cli/plain.hpp"

#include <gtest/gtest.h>

#include <string>

namespace settle::cli {
namespace {

using namespace std::string_literals;

TEST(ShellWord, LeavesPlainOnesAlone) {
    EXPECT_EQ(shell_word("order-A:2026-03/x@y.z%+=,_"), "order-A:2026-03/x@y.z%+=,_");
    EXPECT_EQ(shell_word("order-A~undo"), "order-A~undo");
}

TEST(ShellWord, QuotesWhatAShellWouldRead) {
    EXPECT_EQ(shell_word(""), "''");
    EXPECT_EQ(shell_word("~root"), "'~root'");
    EXPECT_EQ(shell_word("a b"), "'a b'");
    EXPECT_EQ(shell_word("$(id)`x`\"*?!#"), "'$(id)`x`\"*?!#'");
    EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
    EXPECT_EQ(shell_word("ключ"), "'ключ'");
}

TEST(ShellWord, NamesWhatNoTerminalShouldBeShown) {
    EXPECT_EQ(shell_word("a\u202e'\\b\n\x1b"), "$'a\\u202e\\'\\\\b\\n\\u001b'");
}

TEST(CommandLine, NamesTheNamespaceAndMindsAHyphen) {
    Context context;
    EXPECT_EQ(command_line(context, "show", "K"), "settle show K");
    EXPECT_EQ(command_line(context, "rerun", "-K", "--reason x"), "settle rerun --reason x -- -K");
    context.name_space = "a b";
    EXPECT_EQ(command_line(context, "rerun", "K", "--reason x"), "settle --namespace 'a b' rerun K --reason x");
}

TEST(About, TellsTheTwoLargestUnits) {
    EXPECT_EQ(about(0), "in 0s");
    EXPECT_EQ(about(1), "in 1s");
    EXPECT_EQ(about(-61), "1m 1s ago");
    EXPECT_EQ(about(3600), "in 1h");
    EXPECT_EQ(about(3601), "in 1h");
    EXPECT_EQ(about(-90061), "1d 1h ago");
    EXPECT_EQ(about(86400 * 400), "in 400d");
}

TEST(Excerpt, CutsAtACharacterAndCounts) {
    EXPECT_EQ(excerpt("short\n", 10), "short\\n");
    EXPECT_EQ(excerpt("ééé", 3), "éé… (6 bytes in all)");
    EXPECT_EQ(excerpt("abcdef", 6), "abcdef");
    EXPECT_EQ(excerpt("ab\xff\xff\xff", 3), "ab\\xff… (5 bytes in all)");
}

TEST(Table, AlignsByWhatIsSeen) {
    EXPECT_EQ(table({{"a", "bb", "c"}, {"ключ", "b", ""}, {"漢字", "x", "y"}}, 1),
              " a     bb  c\n ключ  b\n 漢字  x   y\n");
    EXPECT_EQ(table({}), "");
}

TEST(SafeJson, EscapesOnlyWhatCouldTrickATerminal) {
    EXPECT_EQ(safe_json("{\"k\u202e\" : \"é漢\u009b\x7f\",\n\"n\": 1.10}"),
              "{\"k\\u202e\" : \"é漢\\u009b\\u007f\",\n\"n\": 1.10}");
    EXPECT_EQ(safe_json("[\"\U000E0041\"]"), "[\"\\udb40\\udc41\"]");
    EXPECT_EQ(safe_json("[\"\xff\"]"), "[\"\xff\"]");
}

TEST(JsonArray, JoinsDocuments) {
    EXPECT_EQ(json_array({}), "[]");
    EXPECT_EQ(json_array({"{}", "1"}), "[{},\n 1]");
}

}  // namespace
}  // namespace settle::cli
