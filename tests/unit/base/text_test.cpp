#include "base/text.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>
#include <string_view>

namespace settle {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using std::chrono::milliseconds;

TEST(Utf8, AcceptsWhatIsWellFormed) {
    for (const std::string_view text : {"", "plain", "\xC2\x80", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                                        "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
        EXPECT_TRUE(is_utf8(text)) << printable(text);
    }
}

TEST(Utf8, RefusesWhatIsNot) {
    const std::vector<std::string> refused{
        "\x80",
        "\xBF",
        "\xC0\x80",
        "\xC1\xBF",
        "\xC2",
        "\xC2 ",
        "\xE0\x9F\xBF",
        "\xE2\x82",
        "\xE2\x82 ",
        "\xED\xA0\x80",
        "\xED\xBF\xBF",
        "\xF0\x8F\xBF\xBF",
        "\xF0\x9F\x98",
        "\xF4\x90\x80\x80",
        "\xF5\x80\x80\x80",
        "\xFF",
        "a\0b"s,
    };
    for (const std::string& text : refused) {
        EXPECT_FALSE(is_utf8(text)) << printable(text);
    }
}

TEST(Durations, AreAWholeNumberAndAUnit) {
    EXPECT_EQ(parse_duration("lease", "30s"), milliseconds{30s});
    EXPECT_EQ(parse_duration("lease", "1500ms"), milliseconds{1500});
    EXPECT_EQ(parse_duration("lease", "2m"), milliseconds{2min});
    EXPECT_EQ(parse_duration("lease", "24h"), milliseconds{24h});
    EXPECT_EQ(parse_duration("lease", "7d"), milliseconds{168h});
    EXPECT_EQ(parse_duration("lease", "007s"), milliseconds{7s});
}

TEST(Durations, AreHeldToTheirLimits) {
    EXPECT_EQ(parse_duration("lease", "1ms"), milliseconds{1});
    EXPECT_EQ(parse_duration("lease", "3650d"), milliseconds{24h * 3650});
    EXPECT_EQ(parse_duration("lease", "315360000000ms"), milliseconds{24h * 3650});
    for (const std::string_view text : {"0s", "0ms", "3651d", "315360000001ms", "87601h", "99999999999999999999d",
                                        "18446744073709551617ms", "9223372036854775808ms"}) {
        const auto refused = parse_duration("lease", text);
        ASSERT_FALSE(refused) << text;
        EXPECT_EQ(refused.error().code, Code::invalid_argument);
        EXPECT_EQ(refused.error().message, "lease: \"" + std::string{text} + "\" is outside the limits: 1ms to 3650d");
    }
}

TEST(Durations, RefuseEverythingElseByName) {
    for (const std::string_view text : {"", "s", "30", "1.5s", "-1s", "+1s", " 1s", "1s ", "1 s", "1S", "1w", "1us",
                                        "1s1s", "0x1s", "1e3s", "\xD9\xA3s"}) {
        const auto refused = parse_duration("--lease", text);
        ASSERT_FALSE(refused) << text;
        EXPECT_EQ(refused.error().code, Code::invalid_argument);
        EXPECT_EQ(refused.error().message,
                  "--lease: \"" + std::string{text} +
                      "\" is no duration; write a whole number and a unit (ms, s, m, h, d), as in \"30s\"");
    }
}

TEST(Durations, AreWrittenInTheirShortestExactForm) {
    EXPECT_EQ(format_duration(0ms), "0ms");
    EXPECT_EQ(format_duration(1ms), "1ms");
    EXPECT_EQ(format_duration(1500ms), "1500ms");
    EXPECT_EQ(format_duration(30s), "30s");
    EXPECT_EQ(format_duration(90s), "90s");
    EXPECT_EQ(format_duration(120s), "2m");
    EXPECT_EQ(format_duration(2h), "2h");
    EXPECT_EQ(format_duration(48h), "2d");
    EXPECT_EQ(format_duration(-5s), "-5s");
    for (const milliseconds time : {milliseconds{1}, milliseconds{61'001}, milliseconds{24h * 3650}}) {
        EXPECT_EQ(parse_duration("x", format_duration(time)), time);
    }
}

TEST(Printable, LeavesOrdinaryTextAlone) {
    EXPECT_EQ(printable("Grüße, 你好 👩‍👩‍👧 \\n \"q\""),
              "Grüße, 你好 👩‍👩‍👧 \\n \"q\"");
}

TEST(Printable, EscapesWhatMovesTheCursorOrForgesALine) {
    EXPECT_EQ(printable("a\nb\rc\td"), "a\\nb\\rc\\td");
    EXPECT_EQ(printable("\x1b[31m\x07\x7f"), "\\u001b[31m\\u0007\\u007f");
    EXPECT_EQ(printable("\0"s), "\\u0000");
    EXPECT_EQ(printable("\xC2\x9B"), "\\u009b");  // CSI as one character
    EXPECT_EQ(printable("\u2028\u2029"), "\\u2028\\u2029");
}

TEST(Printable, EscapesWhatTurnsOrHidesItsNeighbours) {
    EXPECT_EQ(printable("\u202E"), "\\u202e");
    EXPECT_EQ(printable("\u2066x\u2069"), "\\u2066x\\u2069");
    EXPECT_EQ(printable("\u061C\u200E\u200F\u202A"), "\\u061c\\u200e\\u200f\\u202a");
    EXPECT_EQ(printable("\u200B\uFEFF"), "\\u200b\\ufeff");
    EXPECT_EQ(printable("\U000E0041"), "\\U000e0041");
}

TEST(Printable, ShowsInvalidBytes) {
    EXPECT_EQ(printable("a\xFFz"), "a\\xffz");
    EXPECT_EQ(printable("\xE2\x82"), "\\xe2\\x82");
    EXPECT_EQ(printable("\xED\xA0\x80"), "\\xed\\xa0\\x80");
}

TEST(Base64, FollowsItsStandard) {
    const std::vector<std::pair<std::string, std::string>> vectors{
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
        {"\xFF\xFE\0"s, "//4A"},
    };
    for (const auto& [bytes, text] : vectors) {
        EXPECT_EQ(base64_encode(bytes), text);
        EXPECT_EQ(base64_decode(text), bytes);
    }
    std::string all;
    for (int i = 0; i < 256; ++i) {
        all += static_cast<char>(i);
    }
    EXPECT_EQ(base64_decode(base64_encode(all)), all);
}

TEST(Base64, RefusesWhatHasNoOrTwoMeanings) {
    for (const std::string_view text :
         {"Z", "Zg", "Zg=", "Zh==", "Zm9=", "====", "Zg==Zg==", "Z===", "Zm9v\n", "Zm-_", "Zg=a", " Zg="}) {
        EXPECT_FALSE(base64_decode(text)) << text;
    }
}

TEST(RandomIds, AreHexadecimalAndNew) {
    std::set<std::string> seen;
    for (int i = 0; i < 1000; ++i) {
        const std::string id = random_id();
        EXPECT_EQ(id.size(), 32U);
        EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos);
        seen.insert(id);
    }
    EXPECT_EQ(seen.size(), 1000U);
}

}  // namespace
}  // namespace settle
