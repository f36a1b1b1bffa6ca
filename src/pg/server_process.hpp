// Starting PostgreSQL's programs as the server's user, and knowing a postmaster from any other process.
#pragma once

#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "pg/server_files.hpp"

namespace settle::pg {

// The cluster's directory as those programs see it: an inherited descriptor. Their user need not be able to walk the
// directories above it (root's home is closed to others), and paths have no greatest length.
inline constexpr std::string_view inherited_directory = "/proc/self/fd/3";

struct Program {
    std::string path;
    std::vector<std::string> arguments;
};

struct Ended {
    bool good = false;   // exit status 0
    std::string output;  // standard output and error, its last part
};

// Runs a program to its end; it ends with the caller, too. `directory` may be -1.
Result<Ended> run_program(const Program& program, const ServerUser& user, int directory, std::string_view input,
                          Deadline deadline);

// Starts a program that outlives the caller: a session of its own, nothing of the caller's open. Its pid.
Result<pid_t> spawn_server(const Program& program, const ServerUser& user, int directory, int log);

bool is_alive(pid_t pid);

enum class PidFile {
    none,     // there is no postmaster.pid, or its process has ended
    ours,     // a postmaster of this cluster runs
    foreign,  // the number belongs to some other process by now
    unclear,  // the system does not tell
};
struct Postmaster {
    PidFile state = PidFile::none;
    pid_t pid = 0;
};
Postmaster find_postmaster(const ServerHome& home);

}  // namespace settle::pg
