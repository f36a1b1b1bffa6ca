#include "handler/command_result.hpp"

#include <gtest/gtest.h>

namespace settle::handler {
namespace {

TEST(CommandResult, IsPlainTextWhereItCanBe) {
    EXPECT_EQ(to_json({0, "a \"b\"\n\x1b[0m€", ""}),
              R"({"stderr": "", "stdout": "a \"b\"\n\u001b[0m€", "encoding": "utf8", "exit_status": 0})");
}

TEST(CommandResult, IsBase64WhereJsonbCannotHoldIt) {
    EXPECT_EQ(to_json({3, std::string{"a\0b", 3}, "err"}),
              R"({"stderr": "ZXJy", "stdout": "YQBi", "encoding": "base64", "exit_status": 3})");
    EXPECT_EQ(to_json({3, "\xff", ""}), R"({"stderr": "", "stdout": "/w==", "encoding": "base64", "exit_status": 3})");
}

TEST(CommandResult, GivesTheBytesBack) {
    std::string every;
    for (int byte = 0; byte < 256; ++byte) {
        every += static_cast<char>(byte);
    }
    for (const CommandResult& result :
         {CommandResult{0, "", ""}, CommandResult{255, "ä\n\t\x7f", "\\\"/"}, CommandResult{7, every, "plain"}}) {
        const auto back = command_result_of(to_json(result));
        ASSERT_TRUE(back.has_value());
        EXPECT_EQ(back->exit_status, result.exit_status);
        EXPECT_EQ(back->out, result.out);
        EXPECT_EQ(back->err, result.err);
    }
}

TEST(CommandResult, IsReadFromAFailure) {
    const std::string failure = R"({"code":"EXIT_3","detail":)" + to_json({3, "out", "err"}) + "}";
    const auto result = command_result_of_failure(failure);
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(result->exit_status, 3);
    EXPECT_EQ(result->out, "out");
}

TEST(CommandResult, OfAnotherDocumentIsNothing) {
    for (const char* text :
         {"", "nonsense", "null", "[]", "{}", R"({"exit_status":"0","stdout":"","stderr":"","encoding":"utf8"})",
          R"({"exit_status":256,"stdout":"","stderr":"","encoding":"utf8"})",
          R"({"exit_status":-1,"stdout":"","stderr":"","encoding":"utf8"})",
          R"({"exit_status":0,"stdout":1,"stderr":"","encoding":"utf8"})",
          R"({"exit_status":0,"stdout":"","stderr":"","encoding":"latin1"})",
          R"({"exit_status":0,"stdout":"*","stderr":"","encoding":"base64"})"}) {
        EXPECT_FALSE(command_result_of(text).has_value()) << text;
        EXPECT_FALSE(command_result_of_failure(text).has_value()) << text;
    }
    EXPECT_FALSE(command_result_of_failure(R"({"code":"DECLINED","detail":null})").has_value());
}

}  // namespace
}  // namespace settle::handler
