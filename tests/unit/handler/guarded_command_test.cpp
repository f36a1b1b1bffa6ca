#include "handler/guarded_command.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <future>

// The commands that are run here sleep: every sleep of this file is the thing under test.
namespace settle::handler {
namespace {

using namespace std::chrono_literals;
using How = CommandEnd::How;

constexpr auto soon = 20s;

bool eventually(const std::function<bool()>& condition) {
    const auto deadline = BootClock::now() + soon;
    while (!condition()) {
        if (BootClock::now() > deadline) {
            return false;
        }
        poll(nullptr, 0, 2);
    }
    return true;
}

// False for a zombie, too: it does nothing.
bool runs(pid_t pid) {
    std::ifstream file{"/proc/" + std::to_string(pid) + "/stat"};
    std::string number;
    std::string name;
    char state = 'X';
    file >> number >> name >> state;
    return file && state != 'Z' && state != 'X';
}

TrustWindow window_of(std::chrono::milliseconds lease) {
    return trust_window(BootClock::now(), lease);
}

class GuardedCommandTest : public testing::Test {
protected:
    void SetUp() override {
        folder_ = std::filesystem::temp_directory_path() / ("guarded-" + std::to_string(getpid()));
        std::filesystem::create_directories(folder_);
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    [[nodiscard]] std::string file(const std::string& name) const { return folder_ / name; }
    [[nodiscard]] bool exists(const std::string& name) const { return std::filesystem::exists(file(name)); }

    pid_t pid_in(const std::string& name) const {
        pid_t pid = 0;
        eventually([&] { return static_cast<bool>(std::ifstream{file(name)} >> pid); });
        return pid;
    }

    // $1 of the script is the test's folder.
    CommandSpec shell(const std::string& script, std::chrono::milliseconds lease = 60s) const {
        return CommandSpec{.path = "/bin/sh",
                           .arguments = {"sh", "-c", script, "sh", folder_},
                           .variables = {{"rest", "sleep 1000"},   // the thing under test: a command that goes on
                                         {"moment", "sleep 0.1"},  // the thing under test: one that needs a moment
                                         {"step", "sleep 0.01"}},  // the step of a poll
                           .window = window_of(lease),
                           .grace = 500ms,
                           .time_limit_at = std::nullopt,
                           .output_to_stderr = false};
    }

    CommandEnd run(const CommandSpec& spec, const std::function<void(GuardedCommand&)>& meanwhile = {}) {
        SignalGate signals;
        auto command = GuardedCommand::start(spec, signals);
        EXPECT_TRUE(command.has_value());
        std::future<void> other;
        if (meanwhile) {
            other = std::async(std::launch::async, [&] { meanwhile(**command); });
        }
        CommandEnd end = (*command)->wait();
        if (other.valid()) {
            other.get();
        }
        return end;
    }

    // Of the command that runs now; orphans of earlier ones may be children of this process too.
    static pid_t guard() {
        std::ifstream children{"/proc/self/task/" + std::to_string(getpid()) + "/children"};
        for (pid_t pid = 0; children >> pid;) {
            std::string name;
            std::ifstream{"/proc/" + std::to_string(pid) + "/comm"} >> name;
            if (name == "settle-guard" && runs(pid)) {
                return pid;
            }
        }
        return 0;
    }

private:
    std::filesystem::path folder_;
};

TEST_F(GuardedCommandTest, HandsOnStatusAndOutput) {
    const CommandEnd end = run(shell("echo out; echo err >&2; exit 3"));
    EXPECT_EQ(end.how, How::exited);
    EXPECT_EQ(end.value, 3);
    EXPECT_EQ(end.out, "out\n");
    EXPECT_EQ(end.err, "err\n");
    EXPECT_EQ(end.stopped, StopReason::none);
    EXPECT_EQ(end.forwarded_signal, 0);
}

TEST_F(GuardedCommandTest, SaysWhichSignalEndedIt) {
    const CommandEnd end = run(shell("kill -SEGV $$"));
    EXPECT_EQ(end.how, How::killed);
    EXPECT_EQ(end.value, SIGSEGV);
    EXPECT_EQ(end.stopped, StopReason::none);
}

TEST_F(GuardedCommandTest, SetsVariablesInPlaceOfInheritedOnes) {
    setenv("SETTLE_KEY", "inherited", 1);
    CommandSpec spec = shell("env | grep -c ^SETTLE_KEY=; printf %s \"$SETTLE_KEY\"");
    spec.variables.emplace_back("SETTLE_KEY", "a=b c");
    EXPECT_EQ(run(spec).out, "1\na=b c");
    unsetenv("SETTLE_KEY");
}

TEST_F(GuardedCommandTest, IsInAGroupOfItsOwnWithPlainSignals) {
    const CommandEnd end = run(shell("cut -d' ' -f1,5 /proc/$$/stat; exec grep -E '^Sig(Blk|Ign)' /proc/self/status"));
    std::istringstream text{end.out};
    pid_t pid = 0;
    pid_t group = 0;
    std::string name;
    std::string blocked;
    std::string ignored;
    text >> pid >> group >> name >> blocked >> name >> ignored;
    EXPECT_EQ(pid, group);
    EXPECT_NE(group, getpgrp());
    EXPECT_EQ(std::stoull(blocked, nullptr, 16), 0U);
    EXPECT_EQ(std::stoull(ignored, nullptr, 16) & (1ULL << (SIGPIPE - 1)), 0U);
}

TEST_F(GuardedCommandTest, ReportsWhatCannotBeExecuted) {
    std::ofstream{file("script")} << "#!/no/such/interpreter\n";
    std::filesystem::permissions(file("script"), std::filesystem::perms::owner_all);
    CommandSpec spec = shell("");
    spec.path = file("script");
    const CommandEnd end = run(spec);
    EXPECT_EQ(end.how, How::not_started);
    EXPECT_EQ(end.value, ENOENT);
}

TEST_F(GuardedCommandTest, RunsAScriptWithoutInterpreterLineAsShellsDo) {
    std::ofstream{file("script")} << "echo \"$1 $2\"\n";
    std::filesystem::permissions(file("script"), std::filesystem::perms::owner_all);
    CommandSpec spec = shell("");
    spec.path = file("script");
    spec.arguments = {"script", "one", "two"};
    EXPECT_EQ(run(spec).out, "one two\n");
}

TEST_F(GuardedCommandTest, EndsWithTheWindowEvenIfItIgnoresTheRequest) {
    const CommandSpec spec = shell("trap '' TERM; sh -c 'echo $$ > $0/grandchild; exec $rest' $1 & wait", 1000ms);
    const CommandEnd end = run(spec);
    EXPECT_LT(BootClock::now(), spec.window.kill_at + 1s);
    EXPECT_EQ(end.stopped, StopReason::window_ended);
    EXPECT_EQ(end.how, How::killed);
    EXPECT_EQ(end.value, SIGKILL);
    EXPECT_FALSE(runs(pid_in("grandchild")));
}

TEST_F(GuardedCommandTest, LivesOnWithEachRenewal) {
    const CommandSpec spec = shell("while ! [ -e $1/go ]; do $step; done; exit 7", 1000ms);
    const CommandEnd end = run(spec, [&](GuardedCommand& command) {
        command.extend(window_of(60s));
        EXPECT_TRUE(eventually([&] { return BootClock::now() > spec.window.kill_at + 100ms; }));
        std::ofstream{file("go")} << "";
    });
    EXPECT_EQ(end.how, How::exited);
    EXPECT_EQ(end.value, 7);
    EXPECT_EQ(end.stopped, StopReason::none);
}

TEST_F(GuardedCommandTest, StopsWhenTold) {
    const CommandEnd end = run(shell("echo $$ > $1/command; exec $rest"), [&](GuardedCommand& command) {
        pid_in("command");
        command.stop();
    });
    EXPECT_EQ(end.stopped, StopReason::told);
    EXPECT_EQ(end.how, How::killed);
    EXPECT_EQ(end.value, SIGTERM);
}

TEST_F(GuardedCommandTest, StopsAtItsTimeLimit) {
    CommandSpec spec = shell("trap 'exit 0' TERM; echo $$ > $1/command; $rest & wait");
    spec.time_limit_at = BootClock::now() + 300ms;
    const CommandEnd end = run(spec);
    EXPECT_EQ(end.stopped, StopReason::time_limit);
    EXPECT_EQ(end.how, How::exited);  // its own doing, and no answer: the reason says so
}

TEST_F(GuardedCommandTest, TheGroupMayTidyUpAfterItsShellHasDied) {
    // The shell dies of the request at once; the program behind it needs a moment.
    const CommandEnd end = run(shell("sh -c 'trap \"$moment; echo done > $0/tidy; exit\" TERM; echo $$ > $0/inner; "
                                     "while :; do $step; done' "
                                     "$1; true"),
                               [&](GuardedCommand& command) {
                                   pid_in("inner");
                                   command.stop();
                               });
    EXPECT_EQ(end.stopped, StopReason::told);
    EXPECT_TRUE(exists("tidy"));
    EXPECT_FALSE(runs(pid_in("inner")));
}

TEST_F(GuardedCommandTest, NothingOfItOutlivesIt) {
    const CommandEnd end =
        run(shell("$rest & echo $! > $1/member; setsid $rest & echo $! > $1/left; "
                  "sh -c 'setsid sh -c \"echo \\$\\$ > $0/orphan; $rest\" &' $1; "
                  "while ! [ -s $1/orphan ]; do $step; done; exit 0"));
    EXPECT_EQ(end.how, How::exited);
    EXPECT_EQ(end.value, 0);
    for (const char* name : {"member", "left", "orphan"}) {
        EXPECT_FALSE(runs(pid_in(name))) << name;
    }
}

TEST_F(GuardedCommandTest, AHeldOpenPipeDoesNotDelayTheEnd) {
    const auto started_at = BootClock::now();
    const CommandEnd end = run(shell("echo before; ($rest; echo after) & exit 0"));
    EXPECT_EQ(end.out, "before\n");
    EXPECT_LT(BootClock::now() - started_at, soon);
}

TEST_F(GuardedCommandTest, AKilledGuardTakesTheCommandWithIt) {
    const CommandEnd end =
        run(shell("$rest & echo $! > $1/grandchild; echo $$ > $1/command; wait"), [&](GuardedCommand&) {
            pid_in("command");
            ASSERT_GT(guard(), 0);
            kill(guard(), SIGKILL);
        });
    EXPECT_EQ(end.how, How::lost);
    EXPECT_FALSE(runs(pid_in("command")));
    EXPECT_TRUE(eventually([&] { return !runs(pid_in("grandchild")); }));
}

TEST_F(GuardedCommandTest, AFrozenGuardDoesNotKeepTheCommandBeyondTheWindow) {
    const CommandEnd end =
        run(shell("$rest & echo $! > $1/grandchild; echo $$ > $1/command; wait", 1000ms), [&](GuardedCommand&) {
            pid_in("command");
            ASSERT_GT(guard(), 0);
            kill(guard(), SIGSTOP);
        });
    EXPECT_EQ(end.how, How::lost);
    EXPECT_EQ(end.stopped, StopReason::window_ended);
    EXPECT_FALSE(runs(pid_in("command")));
    EXPECT_TRUE(eventually([&] { return !runs(pid_in("grandchild")); }));
}

TEST_F(GuardedCommandTest, AStatusThatTheGuardCouldNotTellIsFoundOut) {
    // The guard is frozen while the command ends by itself, and killed before it can say so.
    const CommandEnd end =
        run(shell("echo $$ > $1/command; while ! [ -e $1/go ]; do $step; done; exit 5"), [&](GuardedCommand&) {
            const pid_t command = pid_in("command");
            const pid_t frozen = guard();
            ASSERT_GT(frozen, 0);
            kill(frozen, SIGSTOP);
            std::ofstream{file("go")} << "";
            ASSERT_TRUE(eventually([&] { return !runs(command); }));
            kill(frozen, SIGKILL);
        });
    EXPECT_EQ(end.how, How::exited);
    EXPECT_EQ(end.value, 5);
}

// The program itself in a process of its own, so that it can be frozen and killed.
class ProgramTest : public GuardedCommandTest {
protected:
    void SetUp() override {
        GuardedCommandTest::SetUp();
        const CommandSpec spec = shell("$rest & echo $! > $1/grandchild; echo $$ > $1/command; wait", lease);
        program_ = fork();
        if (program_ == 0) {
            SignalGate signals;
            auto command = GuardedCommand::start(spec, signals);
            (*command)->wait();
            _exit(0);
        }
        command_ = pid_in("command");
        grandchild_ = pid_in("grandchild");
        ASSERT_TRUE(runs(command_) && runs(grandchild_));
    }
    void TearDown() override {
        kill(program_, SIGKILL);
        waitpid(program_, nullptr, 0);
        GuardedCommandTest::TearDown();
    }
    [[nodiscard]] bool all_gone() const {
        return eventually([&] { return !runs(command_) && !runs(grandchild_); });
    }

    static constexpr auto lease = 2000ms;
    pid_t program_ = 0;
    pid_t command_ = 0;
    pid_t grandchild_ = 0;
};

TEST_F(ProgramTest, KilledItLeavesNothingBehind) {
    kill(program_, SIGKILL);
    const auto killed_at = BootClock::now();
    EXPECT_TRUE(all_gone());
    EXPECT_LT(BootClock::now() - killed_at, lease);
}

TEST_F(ProgramTest, FrozenItsCommandEndsInsideTheWindow) {
    kill(program_, SIGSTOP);
    const auto frozen_at = BootClock::now();
    EXPECT_TRUE(all_gone());
    EXPECT_LT(BootClock::now() - frozen_at, lease);
}

TEST_F(ProgramTest, SignalsReachTheWholeGroup) {
    kill(program_, SIGTERM);
    EXPECT_TRUE(all_gone());
    int status = 0;
    EXPECT_EQ(waitpid(program_, &status, 0), program_);
    EXPECT_TRUE(WIFEXITED(status));
}

TEST_F(GuardedCommandTest, KeepsRecordingWhenNobodyReadsItsOutput) {
    std::array<int, 2> ends{};
    ASSERT_EQ(pipe(ends.data()), 0);
    const int real = dup(STDOUT_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    const CommandEnd end = run(shell("echo one; $moment; echo two"));
    dup2(real, STDOUT_FILENO);
    close(real);
    EXPECT_EQ(end.how, How::exited);
    EXPECT_EQ(end.value, 0);
    EXPECT_EQ(end.out, "one\ntwo\n");
}

TEST_F(GuardedCommandTest, KeepsTheEndOfLongOutput) {
    const int real = dup(STDOUT_FILENO);
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    close(nowhere);
    const CommandEnd end = run(shell("head -c 1048576 /dev/zero | tr '\\0' x; echo end"));
    dup2(real, STDOUT_FILENO);
    close(real);
    EXPECT_LE(end.out.size(), limits::kept_text_bytes);
    EXPECT_TRUE(end.out.starts_with("[settle: "));
    EXPECT_TRUE(end.out.ends_with("xxxend\n"));
    const std::size_t line_end = end.out.find('\n');
    EXPECT_EQ(std::stoull(end.out.substr(9)) + end.out.size() - line_end - 1, 1048576U + 4);
}

}  // namespace
}  // namespace settle::handler
