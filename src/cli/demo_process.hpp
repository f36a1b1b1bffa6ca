// A child process of the demonstration: a shell's view of it, with its pid, its outputs and its exit status.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace settle::cli {

struct DemoPlace {
    std::string directory;                                       // where the children run
    std::vector<std::pair<std::string, std::string>> variables;  // added to their environment
};

struct DemoEnd {
    int status = 0;  // as a shell gives it: 128 and the signal where one ended it
    std::string out;
    std::string err;
};

// Killed when it is destroyed, and by the kernel when the demonstration itself dies. Move-only.
class DemoProcess {
public:
    // `arguments` begin with the program: `settle` is this very program, any other is found by PATH.
    static Result<DemoProcess> start(const DemoPlace& place, const std::vector<std::string>& arguments);
    DemoProcess(DemoProcess&& other) noexcept;
    DemoProcess& operator=(DemoProcess&& other) = delete;
    DemoProcess(const DemoProcess&) = delete;
    DemoProcess& operator=(const DemoProcess&) = delete;
    ~DemoProcess();

    [[nodiscard]] pid_t pid() const noexcept { return pid_; }
    void signal(int number) const noexcept;
    Result<DemoEnd> wait(Deadline deadline);

private:
    DemoProcess(pid_t pid, std::string out_file, std::string err_file)
        : pid_(pid), out_file_(std::move(out_file)), err_file_(std::move(err_file)) {}
    pid_t pid_;
    std::string out_file_;  // files, so that nobody must read while it runs
    std::string err_file_;
};

// "" where there is no such file.
std::string read_text(const std::string& path);

}  // namespace settle::cli
