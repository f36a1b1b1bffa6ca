#include "domain/json_text.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/limits.hpp"

namespace settle {
namespace {

std::string repeated(std::string_view text, int times) {
    std::string out;
    for (int i = 0; i < times; ++i) {
        out += text;
    }
    return out;
}

// What is said of the text, without the field's name; empty when it is accepted.
std::string complaint(std::string_view text) {
    const auto checked = check_json_text("request", text);
    if (checked) {
        return {};
    }
    EXPECT_EQ(checked.error().code, Code::invalid_argument);
    const std::string& message = checked.error().message;
    EXPECT_TRUE(message.starts_with("request: ")) << message;
    return message.substr(std::string_view{"request: "}.size());
}

TEST(JsonText, AcceptsOrdinaryDocuments) {
    for (const std::string_view text :
         {"{}", "[]", "null", "true", "false", "0", "-0", "\"\"", " \t\r\n{ \"a\" : [ 1 , 2 ] }\n",
          R"({"amount":100,"currency":"EUR","meta":{"a":1,"b":[2,1]}})", R"({"a":1e2,"b":100.0,"c":"\u0045UR"})",
          R"(["\"\\\/\b\f\n\r\t\u00e9", "é", "\ud83d\ude00", "😀"])", R"({"":1,"a":{"":2}})", R"({"a":{"a":{"a":1}}})",
          R"([{"a":1},{"a":1}])", "9007199254740993", "-1.5E-10", "[1e0,1E+0,1e-0]", R"({"k":null})"}) {
        EXPECT_EQ(complaint(text), "") << text;
    }
}

TEST(JsonText, RefusesDuplicateNamesAndNamesThePlace) {
    EXPECT_EQ(complaint(R"({"a":1,"a":2})"), "duplicate member name at /a (byte 7)");
    EXPECT_EQ(complaint(R"({"a":1,"\u0061":2})"), "duplicate member name at /a (byte 7)");
    EXPECT_EQ(complaint(R"({"\u0061":1,"a":2})"), "duplicate member name at /a (byte 12)");
    EXPECT_EQ(complaint(R"({"\ud83d\ude00":1,"😀":2})"), "duplicate member name at /😀 (byte 18)");
    EXPECT_EQ(complaint(R"({"x":[0,{"y":{"b":1,"c":2,"b":1}}]})"), "duplicate member name at /x/1/y/b (byte 26)");
    EXPECT_EQ(complaint(R"({"":1,"":2})"), "duplicate member name at / (byte 6)");
    EXPECT_EQ(complaint(R"({"a/b":{"m~n":1,"m~n":2}})"), "duplicate member name at /a~1b/m~0n (byte 16)");
    EXPECT_EQ(complaint(R"({"é":1,"\u00e9":2})"), "duplicate member name at /é (byte 8)");
}

TEST(JsonText, ComparesNamesAsTheyAreNotAsTheyLook) {
    EXPECT_EQ(complaint(R"({"é":1,"e\u0301":2})"), "");  // composed and decomposed: no normalisation
    EXPECT_EQ(complaint(R"({"a":1,"A":2})"), "");
    EXPECT_EQ(complaint(R"({"a":1,"a ":2})"), "");
}

TEST(JsonText, FindsDuplicatesAmongManyNamesQuickly) {
    std::string text = "{";
    int names = 0;
    while (text.size() < limits::request_bytes - 40) {
        text += "\"n" + std::to_string(names++) + "\":1,";
    }
    const std::string unique = text + "\"last\":1}";
    const std::string twice = text + "\"n0\":1}";
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(complaint(unique), "");
    EXPECT_TRUE(complaint(twice).starts_with("duplicate member name at /n0 (byte "));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds{10});
}

TEST(JsonText, RefusesTheZeroCharacter) {
    EXPECT_EQ(complaint(R"("\u0000")"), "U+0000 in a string at the top level (byte 1)");
    EXPECT_EQ(complaint(R"({"a":"x\u0000"})"), "U+0000 in a string at /a (byte 7)");
    EXPECT_EQ(complaint(R"({"o":{"x\u0000":1}})"), "U+0000 in a member name at /o (byte 8)");
    EXPECT_EQ(complaint(R"([["a"],["b","\u0000"]])"), "U+0000 in a string at /1/1 (byte 13)");
    EXPECT_EQ(complaint(std::string_view{"\"a\0\"", 4}),
              "a bare control character in a string at the top level (byte 2)");
    EXPECT_EQ(complaint(R"("\\u0000")"), "");  // a backslash, then ordinary letters
}

TEST(JsonText, RefusesLoneSurrogates) {
    EXPECT_EQ(complaint(R"("\ud83d")"), "a lone surrogate in a string at the top level (byte 1)");
    EXPECT_EQ(complaint(R"("\ude00")"), "a lone surrogate in a string at the top level (byte 1)");
    EXPECT_EQ(complaint(R"(["\ud83dx"])"), "a lone surrogate in a string at /0 (byte 2)");
    EXPECT_EQ(complaint(R"(["\ud83d\n"])"), "a lone surrogate in a string at /0 (byte 2)");
    EXPECT_EQ(complaint(R"(["\ud83d\u0041"])"), "a lone surrogate in a string at /0 (byte 2)");
    EXPECT_EQ(complaint(R"(["\ude00\ud83d"])"), "a lone surrogate in a string at /0 (byte 2)");
    EXPECT_EQ(complaint(R"(["\ud83d\ud83d\ude00"])"), "a lone surrogate in a string at /0 (byte 2)");
    EXPECT_EQ(complaint(R"({"\uDFFF":1})"), "a lone surrogate in a member name at the top level (byte 2)");
    EXPECT_EQ(complaint("\"\xED\xA0\x80\""), "invalid UTF-8 in a string at the top level (byte 1)");
}

TEST(JsonText, HoldsNumbersToWhatADoubleCanReach) {
    EXPECT_EQ(complaint("1e308"), "");
    EXPECT_EQ(complaint("9.99e308"), "");
    EXPECT_EQ(complaint("-1e308"), "");
    EXPECT_EQ(complaint("0.001e311"), "");
    const std::string beyond = "a number of 1e309 or beyond at the top level (byte 0)";
    EXPECT_EQ(complaint("1e309"), beyond);
    EXPECT_EQ(complaint("-1e309"), beyond);
    EXPECT_EQ(complaint("1E+309"), beyond);
    EXPECT_EQ(complaint("10e308"), beyond);
    EXPECT_EQ(complaint("0.001e312"), beyond);
    EXPECT_EQ(complaint("1e400"), beyond);
    EXPECT_EQ(complaint("1e99999999999999999999999"), beyond);
    EXPECT_EQ(complaint("1" + repeated("0", 308)), "");
    EXPECT_EQ(complaint("1" + repeated("0", 309)), beyond);
    EXPECT_EQ(complaint(repeated("9", 401)), beyond);
    EXPECT_EQ(complaint("[0,{\"n\":[1e309]}]"), "a number of 1e309 or beyond at /1/n/0 (byte 9)");
    EXPECT_EQ(complaint("0e400"), "");  // zero, however it is written
    EXPECT_EQ(complaint("0e99999999999"), beyond);
}

TEST(JsonText, HoldsNumbersToFourHundredDigitsWrittenOut) {
    const std::string long_number = "a number of more than 400 digits written out at the top level (byte 0)";
    EXPECT_EQ(complaint("1." + repeated("1", 399)), "");
    EXPECT_EQ(complaint("1." + repeated("1", 400)), long_number);
    EXPECT_EQ(complaint("0." + repeated("0", 398) + "1"), "");
    EXPECT_EQ(complaint("0." + repeated("0", 399) + "1"), long_number);
    EXPECT_EQ(complaint("1e-399"), "");
    EXPECT_EQ(complaint("1e-400"), long_number);
    EXPECT_EQ(complaint("12e-400"), long_number);
    EXPECT_EQ(complaint("1e-99999999999999999999"), long_number);
    EXPECT_EQ(complaint("1." + repeated("1", 399) + "e100"), "");
    EXPECT_EQ(complaint("1." + repeated("1", 399) + "e-1"), long_number);
    EXPECT_EQ(complaint("1." + repeated("0", 500)), "");  // as good as 1
    EXPECT_EQ(complaint("1.5" + repeated("0", 500) + "e-300"), "");
    EXPECT_EQ(complaint("1." + repeated("0", 16383)), "");
    EXPECT_EQ(complaint("1." + repeated("0", 16384)), long_number);  // more than the database's numeric can hold
    EXPECT_EQ(complaint("0e-399"), "");
    EXPECT_EQ(complaint("0e-400"), long_number);
    EXPECT_EQ(complaint("[-1e-400]"), "a number of more than 400 digits written out at /0 (byte 1)");
}

TEST(JsonText, HoldsNestingToItsLimit) {
    EXPECT_EQ(complaint(repeated("[", 32) + repeated("]", 32)), "");
    EXPECT_EQ(complaint(repeated("{\"a\":", 32) + "1" + repeated("}", 32)), "");
    EXPECT_EQ(complaint(repeated("[", 33) + repeated("]", 33)),
              "nesting deeper than 32 at " + repeated("/0", 32) + " (byte 32)");
    EXPECT_EQ(complaint(repeated("{\"a\":", 33) + "1" + repeated("}", 33)),
              "nesting deeper than 32 at " + repeated("/a", 32) + " (byte 160)");
    // Far deeper is refused at the same place, long before the stack is in danger.
    EXPECT_EQ(complaint(repeated("[", 1'000'000)), "nesting deeper than 32 at " + repeated("/0", 32) + " (byte 32)");
}

TEST(JsonText, HoldsTheSizeToItsLimit) {
    const std::string full = "\"" + std::string(limits::request_bytes - 2, 'x') + "\"";
    ASSERT_EQ(full.size(), 1048576U);
    EXPECT_EQ(complaint(full), "");
    EXPECT_EQ(complaint(full + " "), "1048577 bytes are more than the limit of 1048576 (1 MiB)");
}

TEST(JsonText, RefusesWhatIsNoJson) {
    const std::vector<std::pair<std::string, std::string>> cases{
        {"", "the text ends where a value is expected at the top level (byte 0)"},
        {"  ", "the text ends where a value is expected at the top level (byte 2)"},
        {"\xEF\xBB\xBF{}", "this is no JSON: a value is expected at the top level (byte 0)"},
        {"{} x", "text after the end of the document at the top level (byte 3)"},
        {"{}{}", "text after the end of the document at the top level (byte 2)"},
        {"01", "text after the end of the document at the top level (byte 1)"},
        {"nul", "this is no JSON: a value is expected at the top level (byte 0)"},
        {"nullx", "text after the end of the document at the top level (byte 4)"},
        {"NaN", "this is no JSON: a value is expected at the top level (byte 0)"},
        {"Infinity", "this is no JSON: a value is expected at the top level (byte 0)"},
        {"+1", "this is no JSON: a value is expected at the top level (byte 0)"},
        {"-", "the text ends where a value is expected at the top level (byte 1)"},
        {".5", "this is no JSON: a value is expected at the top level (byte 0)"},
        {"1.", "the text ends where a digit is expected at the top level (byte 2)"},
        {"1.e1", "this is no JSON: a digit is expected at the top level (byte 2)"},
        {"1e", "the text ends where a digit is expected at the top level (byte 2)"},
        {"1e+", "the text ends where a digit is expected at the top level (byte 3)"},
        {"'a'", "this is no JSON: a value is expected at the top level (byte 0)"},
        {"\"a", "the text ends where '\"' is expected at the top level (byte 2)"},
        {"\"a\nb\"", "a bare control character in a string at the top level (byte 2)"},
        {R"("\x41")", "an unknown escape in a string at the top level (byte 1)"},
        {R"("\u12g4")", "\\u without four hexadecimal digits at the top level (byte 1)"},
        {R"("\u12)", "\\u without four hexadecimal digits at the top level (byte 1)"},
        {"\"\\", "an unknown escape in a string at the top level (byte 1)"},
        {"[1,]", "this is no JSON: a value is expected at /1 (byte 3)"},
        {"[1", "the text ends where ',' or ']' is expected at the top level (byte 2)"},
        {"[1 2]", "this is no JSON: ',' or ']' is expected at the top level (byte 3)"},
        {"{\"a\":1,}", "this is no JSON: a member name is expected at the top level (byte 7)"},
        {"{a:1}", "this is no JSON: a member name is expected at the top level (byte 1)"},
        {"{\"a\"}", "this is no JSON: ':' is expected at /a (byte 4)"},
        {"{\"a\":}", "this is no JSON: a value is expected at /a (byte 5)"},
        {"{\"a\":1", "the text ends where ',' or '}' is expected at the top level (byte 6)"},
        {"[1] // note", "text after the end of the document at the top level (byte 4)"},
        {"\"a\xFF\"", "invalid UTF-8 in a string at the top level (byte 2)"},
        {"{\"\xC0\x80\":1}", "invalid UTF-8 in a member name at the top level (byte 2)"},
        {"{\"a\":\"\xE2\x82\"}", "invalid UTF-8 in a string at /a (byte 6)"},
        {"\xFF", "this is no JSON: a value is expected at the top level (byte 0)"},
    };
    for (const auto& [text, expected] : cases) {
        EXPECT_EQ(complaint(text), expected) << text;
    }
}

TEST(JsonText, CutsALongPlaceAtACharacter) {
    const std::string name = repeated("é", 150);
    const std::string said = complaint("{\"" + name + "\":1,\"" + name + "\":2}");
    EXPECT_EQ(said, "duplicate member name at /" + repeated("é", 99) + "… (byte 306)");
}

}  // namespace
}  // namespace settle
