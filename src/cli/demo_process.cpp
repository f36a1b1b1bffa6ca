#include "cli/demo_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

namespace settle::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto look_pause = 2ms;  // between two looks at a child

// All that the child needs, made before the fork.
struct ChildPlan {
    std::vector<char*> arguments;
    std::vector<char*> environment;
    const char* directory = nullptr;
    int input = -1;
    int out = -1;
    int err = -1;
    pid_t parent = 0;
};

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    pointers.reserve(texts.size() + 1);
    for (std::string& text : texts) {
        pointers.push_back(text.data());
    }
    pointers.push_back(nullptr);
    return pointers;
}

std::vector<std::string> environment_with(const DemoPlace& place) {
    std::vector<std::string> environment;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        environment.emplace_back(*entry);
    }
    for (const auto& [name, value] : place.variables) {
        std::erase_if(environment, [&](const std::string& entry) { return entry.starts_with(name + "="); });
        environment.push_back(fmt::format("{}={}", name, value));
    }
    return environment;
}

[[noreturn]] void become(const ChildPlan& plan) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != plan.parent || chdir(plan.directory) != 0 || dup2(plan.input, STDIN_FILENO) < 0 ||
        dup2(plan.out, STDOUT_FILENO) < 0 || dup2(plan.err, STDERR_FILENO) < 0) {
        _exit(126);
    }
    static_cast<void>(std::signal(SIGPIPE, SIG_DFL));
    if (std::strcmp(plan.arguments.front(), "settle") == 0) {
        execve("/proc/self/exe", plan.arguments.data(), plan.environment.data());
    } else {
        execvpe(plan.arguments.front(), plan.arguments.data(), plan.environment.data());
    }
    _exit(127);
}

struct OutputFile {
    std::string path;
    int descriptor = -1;
};

Result<OutputFile> output_file(const DemoPlace& place) {
    OutputFile file{.path = place.directory + "/.output.XXXXXX"};
    file.descriptor = mkostemp(file.path.data(), O_CLOEXEC | O_APPEND);
    if (file.descriptor < 0) {
        return fail(Code::internal, fmt::format("cannot write in {}: {}", place.directory, std::strerror(errno)));
    }
    return file;
}

}  // namespace

Result<DemoProcess> DemoProcess::start(const DemoPlace& place, const std::vector<std::string>& arguments) {
    const auto out = output_file(place);
    if (!out) {
        return std::unexpected{out.error()};
    }
    const auto err = output_file(place);
    const int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    std::vector<std::string> words = arguments;
    std::vector<std::string> environment = environment_with(place);
    pid_t pid = -1;
    if (err && input >= 0) {
        const ChildPlan plan{.arguments = pointers_to(words),
                             .environment = pointers_to(environment),
                             .directory = place.directory.c_str(),
                             .input = input,
                             .out = out->descriptor,
                             .err = err->descriptor,
                             .parent = getpid()};
        pid = fork();
        if (pid == 0) {
            become(plan);
        }
    }
    const std::string why = std::strerror(errno);
    close(out->descriptor);
    close(input);
    if (!err) {
        return std::unexpected{err.error()};
    }
    close(err->descriptor);
    if (pid < 0) {
        return fail(Code::internal, fmt::format("cannot start {}: {}", arguments.front(), why));
    }
    return DemoProcess{pid, out->path, err->path};
}

DemoProcess::DemoProcess(DemoProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      out_file_(std::move(other.out_file_)),
      err_file_(std::move(other.err_file_)) {}

DemoProcess::~DemoProcess() {
    if (pid_ > 0) {
        kill(pid_, SIGKILL);
        while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
        }
    }
}

void DemoProcess::signal(int number) const noexcept {
    if (pid_ > 0) {
        kill(pid_, number);
    }
}

Result<DemoEnd> DemoProcess::wait(Deadline deadline) {
    for (;;) {
        int status = 0;
        const pid_t ended = waitpid(pid_, &status, WNOHANG);
        if (ended == pid_) {
            pid_ = 0;
            return DemoEnd{.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
                           .out = read_text(out_file_),
                           .err = read_text(err_file_)};
        }
        if (ended < 0 && errno != EINTR) {
            return fail(Code::internal, fmt::format("process {} cannot be waited for", pid_));
        }
        if (deadline.passed()) {
            return fail(Code::internal, fmt::format("process {} did not end in time", pid_));
        }
        std::this_thread::sleep_for(look_pause);
    }
}

std::string read_text(const std::string& path) {
    std::ifstream file{path, std::ios::binary};
    return {std::istreambuf_iterator<char>{file}, std::istreambuf_iterator<char>{}};
}

}  // namespace settle::cli
