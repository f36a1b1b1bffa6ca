#include "pg/server_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <poll.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace settle::pg {
namespace {

constexpr int directory_number = 3;  // as in `inherited_directory`
constexpr int first_safe_number = 10;
constexpr std::size_t output_bytes_max = 64U << 10U;

enum class Stage { pid, user, directory, run };

// What the child says before the program takes its place.
struct Message {
    Stage stage = Stage::pid;
    int value = 0;  // the pid, or errno
};

// All that the child needs, made before the fork: after it only system calls are safe.
struct Launch {
    std::vector<std::string> texts;
    std::vector<char*> arguments;
    std::vector<char*> environment;
    ServerUser user;
    int input = -1;
    int output = -1;
    int directory = -1;
    int messages = -1;
    bool ends_with_caller = false;
    pid_t caller = 0;
};

Launch make_launch(const Program& program, const ServerUser& user) {
    Launch launch;
    launch.user = user;
    launch.caller = getpid();
    launch.texts.push_back(program.path);
    launch.texts.insert(launch.texts.end(), program.arguments.begin(), program.arguments.end());
    const std::size_t argument_count = launch.texts.size();
    // The caller's PGPORT, PGDATA or LC_MESSAGES would change the server; errors are read in English.
    launch.texts.emplace_back("PATH=/usr/local/bin:/usr/bin:/bin");
    launch.texts.emplace_back("LC_ALL=C");
    if (const char* libraries = std::getenv("LD_LIBRARY_PATH"); libraries != nullptr && !user.other) {
        launch.texts.push_back(fmt::format("LD_LIBRARY_PATH={}", libraries));
    }
    for (std::size_t i = 0; i < launch.texts.size(); ++i) {
        (i < argument_count ? launch.arguments : launch.environment).push_back(launch.texts[i].data());
    }
    launch.arguments.push_back(nullptr);
    launch.environment.push_back(nullptr);
    return launch;
}

void say(int pipe, Message message) noexcept {
    static_cast<void>(!write(pipe, &message, sizeof message));
}

[[noreturn]] void give_up(const Launch& launch, Stage stage) noexcept {
    say(launch.messages, {.stage = stage, .value = errno});
    _exit(127);
}

void reset_signals() noexcept {
    for (int number = 1; number < NSIG; ++number) {
        static_cast<void>(signal(number, SIG_DFL));
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
}

// A caller that is the first to die when memory runs out does not pass that on to the server, where the kernel allows.
void forget_oom_score() noexcept {
    const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file >= 0) {
        static_cast<void>(!write(file, "0", 1));
        close(file);
    }
}

void close_on_exec_from(unsigned first) noexcept {
    if (close_range(first, ~0U, CLOSE_RANGE_CLOEXEC) == 0) {
        return;
    }
    const long open_max = std::min(sysconf(_SC_OPEN_MAX), 65536L);  // a kernel before 5.11
    for (long number = first; number < open_max; ++number) {
        fcntl(static_cast<int>(number), F_SETFD, FD_CLOEXEC);
    }
}

[[noreturn]] void become(Launch& launch) noexcept {
    reset_signals();
    forget_oom_score();
    if (launch.input < 0) {
        launch.input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    if (chdir("/") != 0 || dup2(launch.input, 0) < 0 || dup2(launch.output, 1) < 0 || dup2(launch.output, 2) < 0 ||
        (launch.directory >= 0 && dup2(launch.directory, directory_number) < 0)) {
        give_up(launch, Stage::directory);
    }
    close_on_exec_from(launch.directory >= 0 ? directory_number + 1 : directory_number);
    if (launch.user.other &&
        (setgroups(1, &launch.user.gid) != 0 || setgid(launch.user.gid) != 0 || setuid(launch.user.uid) != 0)) {
        give_up(launch, Stage::user);
    }
    if (launch.ends_with_caller) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);  // after setuid, which clears it
        if (getppid() != launch.caller) {
            _exit(127);
        }
    }
    umask(077);
    execve(launch.arguments[0], launch.arguments.data(), launch.environment.data());
    give_up(launch, Stage::run);
}

struct Pipe {
    FileDescriptor read;
    FileDescriptor write;
};

// Both ends out of the way of the numbers that the child gives out.
Result<Pipe> make_pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
        return fail(Code::database_unreachable, fmt::format("no pipe can be made: {}", std::strerror(errno)));
    }
    const FileDescriptor low_read{ends[0]};
    const FileDescriptor low_write{ends[1]};
    Pipe pipe{.read = FileDescriptor{fcntl(ends[0], F_DUPFD_CLOEXEC, first_safe_number)},
              .write = FileDescriptor{fcntl(ends[1], F_DUPFD_CLOEXEC, first_safe_number)}};
    if (!pipe.read || !pipe.write) {
        return fail(Code::database_unreachable, fmt::format("no pipe can be made: {}", std::strerror(errno)));
    }
    return pipe;
}

FileDescriptor moved_up(int number) {
    return FileDescriptor{number < 0 ? -1 : fcntl(number, F_DUPFD_CLOEXEC, first_safe_number)};
}

int wait_for(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return -1;
        }
    }
    return status;
}

std::unexpected<Error> cannot_run(const Program& program, const ServerUser& user, const Message& message) {
    if (message.stage == Stage::user) {
        return fail(Code::database_unreachable,
                    fmt::format("PostgreSQL does not run as root, and root may not become user {} here ({}): run this "
                                "as an ordinary user, or name a database with --db",
                                user.uid, std::strerror(message.value)));
    }
    return fail(Code::database_unreachable,
                fmt::format("cannot run {} as user {}: {}; check that this user can reach it, or name a database "
                            "with --db",
                            program.path, user.uid, std::strerror(message.value)));
}

std::unexpected<Error> cannot_fork(const Program& program) {
    return fail(Code::database_unreachable,
                fmt::format("cannot start {}: {}; free some memory or processes, then run the command again",
                            program.path, std::strerror(errno)));
}

// Takes the messages until the program runs (or the child has ended): its pid, or why not.
Result<pid_t> started_pid(const Program& program, const ServerUser& user, int messages) {
    pid_t pid = 0;
    Message message;
    for (;;) {
        const ssize_t got = read(messages, &message, sizeof message);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got != sizeof message) {
            break;
        }
        if (message.stage != Stage::pid) {
            return cannot_run(program, user, message);
        }
        pid = message.value;
    }
    if (pid == 0) {
        return fail(Code::database_unreachable,
                    fmt::format("{} ended before it began; run the command again", program.path));
    }
    return pid;
}

// Everything the program says; false where the deadline came first.
bool take_output(int from, std::string& output, Deadline deadline) {
    std::array<char, 4096> part{};
    for (;;) {
        pollfd waits{.fd = from, .events = POLLIN, .revents = 0};
        const int ready = poll(&waits, 1, static_cast<int>(deadline.left().count()));
        if (ready == 0) {
            return false;
        }
        const ssize_t got = ready < 0 ? -1 : read(from, part.data(), part.size());
        if (got == 0 || (got < 0 && errno != EINTR)) {
            return true;
        }
        if (got > 0) {
            output.append(part.data(), static_cast<std::size_t>(got));
            if (output.size() > 2 * output_bytes_max) {
                output.erase(0, output.size() - output_bytes_max);
            }
        }
    }
}

std::string first_line(const std::string& path) {
    std::string text = read_from(path, 0);
    text.resize(std::min(text.find('\n'), text.size()));
    return text;
}

// Looks as the process's own user and group: the kernel shows a process's directory to these, and to root only with a
// right that containers do not have.
bool stat_directory_of(pid_t pid, struct stat& state) {
    struct stat process{};
    if (stat(fmt::format("/proc/{}", pid).c_str(), &process) != 0) {
        return false;
    }
    const bool root = geteuid() == 0;
    if (root) {
        setfsgid(process.st_gid);
        setfsuid(process.st_uid);
    }
    const bool found = stat(fmt::format("/proc/{}/cwd", pid).c_str(), &state) == 0;
    const int error = errno;
    if (root) {
        setfsuid(geteuid());
        setfsgid(getegid());
    }
    errno = error;
    return found;
}

}  // namespace

Result<Ended> run_program(const Program& program, const ServerUser& user, int directory, std::string_view input,
                          Deadline deadline) {
    auto in = make_pipe();
    auto out = make_pipe();
    auto messages = make_pipe();
    if (!in || !out || !messages) {
        return std::unexpected{!in ? in.error() : !out ? out.error() : messages.error()};
    }
    // Far less than a pipe holds, so nobody need be reading yet.
    static_cast<void>(!write(in->write.get(), input.data(), input.size()));
    in->write.reset();
    const FileDescriptor high_directory = moved_up(directory);
    Launch launch = make_launch(program, user);
    launch.input = in->read.get();
    launch.output = out->write.get();
    launch.messages = messages->write.get();
    launch.directory = high_directory.get();
    launch.ends_with_caller = true;
    const pid_t pid = fork();
    if (pid < 0) {
        return cannot_fork(program);
    }
    if (pid == 0) {
        setsid();
        say(launch.messages, {.stage = Stage::pid, .value = getpid()});
        become(launch);
    }
    out->write.reset();
    messages->write.reset();
    Ended ended;
    auto started = started_pid(program, user, messages->read.get());
    const bool in_time = take_output(out->read.get(), ended.output, deadline);
    if (!in_time) {
        kill(-pid, SIGKILL);
    }
    ended.good = wait_for(pid) == 0;
    if (!started) {
        return std::unexpected{started.error()};
    }
    if (!in_time) {
        return fail(Code::database_unreachable, fmt::format("{} took too long: run the command again", program.path));
    }
    return ended;
}

Result<pid_t> spawn_server(const Program& program, const ServerUser& user, int directory, int log) {
    auto messages = make_pipe();
    if (!messages) {
        return std::unexpected{messages.error()};
    }
    const FileDescriptor high_directory = moved_up(directory);
    const FileDescriptor high_log = moved_up(log);
    Launch launch = make_launch(program, user);
    launch.output = high_log.get();
    launch.directory = high_directory.get();
    launch.messages = messages->write.get();
    const pid_t between = fork();
    if (between < 0) {
        return cannot_fork(program);
    }
    if (between == 0) {
        setsid();
        // A child of init: a server that dies leaves no zombie below a caller that runs on.
        const pid_t server = fork();
        if (server == 0) {
            say(launch.messages, {.stage = Stage::pid, .value = getpid()});
            become(launch);
        }
        if (server < 0) {
            give_up(launch, Stage::run);
        }
        _exit(0);
    }
    messages->write.reset();
    wait_for(between);
    return started_pid(program, user, messages->read.get());
}

bool is_alive(pid_t pid) {
    if (kill(pid, 0) != 0 && errno == ESRCH) {
        return false;
    }
    const std::string state = read_from(fmt::format("/proc/{}/stat", pid), 0);
    const std::size_t name_end = state.rfind(')');
    return name_end == std::string::npos || name_end + 2 >= state.size() ||
           (state[name_end + 2] != 'Z' && state[name_end + 2] != 'X');
}

Postmaster find_postmaster(const ServerHome& home) {
    const std::string text = first_line(home.data() + "/postmaster.pid");
    Postmaster found;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), found.pid);
    if (parsed.ec != std::errc{} || found.pid <= 0 || (kill(found.pid, 0) != 0 && errno == ESRCH)) {
        return {};
    }
    struct stat data{};
    if (stat(home.data().c_str(), &data) != 0) {
        return {};
    }
    const bool named_postgres = first_line(fmt::format("/proc/{}/comm", found.pid)) == "postgres";
    struct stat current{};
    if (stat_directory_of(found.pid, current)) {
        const bool same = current.st_dev == data.st_dev && current.st_ino == data.st_ino;
        found.state = same && named_postgres ? PidFile::ours : PidFile::foreign;
    } else {
        const bool hidden = errno == EACCES || errno == EPERM;
        found.state = hidden && named_postgres ? PidFile::unclear : PidFile::foreign;
    }
    return found;
}

}  // namespace settle::pg
