#include "handler/command_path.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace settle::handler {
namespace {

namespace fs = std::filesystem;

class CommandPathTest : public testing::Test {
protected:
    void SetUp() override {
        folder_ = fs::temp_directory_path() / ("path-" + std::to_string(getpid()));
        fs::create_directories(folder_ / "a");
        fs::create_directories(folder_ / "b");
        make("a/data", false);
        make("b/tool", true);
        make("b/data", true);
        fs::create_directories(folder_ / "a" / "tool");
    }
    void TearDown() override { fs::remove_all(folder_); }

    void make(const std::string& name, bool executable) const {
        std::ofstream{folder_ / name} << "";
        fs::permissions(folder_ / name, executable ? fs::perms::owner_all : fs::perms::owner_read);
    }
    [[nodiscard]] std::string at(const std::string& name) const { return folder_ / name; }

    fs::path folder_;
};

TEST_F(CommandPathTest, SearchesInOrder) {
    const std::string both = at("a") + ":" + at("b");
    // A directory and a file without permission are passed over where a better one follows.
    EXPECT_EQ(find_command("tool", both).value(), at("b/tool"));
    EXPECT_EQ(find_command("data", both).value(), at("b/data"));
    EXPECT_EQ(find_command("tool", both + ":" + at("c")).value(), at("b/tool"));
}

TEST_F(CommandPathTest, SaysWhyAsShellsDo) {
    const auto absent = find_command("no-such-tool", at("a"));
    ASSERT_FALSE(absent.has_value());
    EXPECT_EQ(absent.error().exit_status, 127);
    EXPECT_NE(absent.error().message.find("no-such-tool"), std::string::npos);

    const auto refused = find_command("data", at("a"));
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().exit_status, 126);

    EXPECT_EQ(find_command("", at("a")).error().exit_status, 127);
    EXPECT_EQ(find_command("tool", at("a")).error().exit_status, 127);
    EXPECT_EQ(find_command("tool", "").error().exit_status, 127);
}

TEST_F(CommandPathTest, ANameWithASlashIsAPath) {
    EXPECT_EQ(find_command(at("b/tool"), "").value(), at("b/tool"));
    EXPECT_EQ(find_command(at("a/data"), at("b")).error().exit_status, 126);
    EXPECT_EQ(find_command(at("a"), at("b")).error().exit_status, 126);
    EXPECT_EQ(find_command(at("a/none"), at("b")).error().exit_status, 127);
}

TEST_F(CommandPathTest, AnEmptyElementIsTheWorkingDirectory) {
    const fs::path before = fs::current_path();
    fs::current_path(folder_ / "b");
    EXPECT_EQ(find_command("tool", at("a") + ":").value(), "./tool");
    EXPECT_EQ(find_command("tool", ":" + at("a")).value(), "./tool");
    fs::current_path(before);
}

TEST_F(CommandPathTest, HostileNamesStayOnOneLine) {
    const auto answer = find_command("evil\n\x1b[2J", at("a"));
    ASSERT_FALSE(answer.has_value());
    EXPECT_EQ(answer.error().message.find_first_of("\n\x1b"), std::string::npos);
}

}  // namespace
}  // namespace settle::handler
