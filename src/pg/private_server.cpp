#include "pg/private_server.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <libpq-fe.h>
#include <poll.h>
#include <sys/stat.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "pg/server_binaries.hpp"
#include "pg/server_cluster.hpp"
#include "pg/server_files.hpp"
#include "pg/server_process.hpp"

namespace settle::pg {
namespace {

constexpr auto answer_poll = milliseconds{20};
constexpr auto leftover_poll = milliseconds{200};

enum class Answer { yes, ended, late };

void wait_a_moment(milliseconds time) {
    poll(nullptr, 0, static_cast<int>(time.count()));
}

bool answers(const std::string& url) {
    // A stopped server accepts a connection and then says nothing: libpq's shortest time-out is two seconds.
    return PQping((url + "&connect_timeout=2").c_str()) == PQPING_OK;
}

Answer wait_for_answer(const std::string& url, pid_t pid, Deadline deadline) {
    for (;;) {
        if (answers(url)) {
            return Answer::yes;
        }
        if (!is_alive(pid)) {
            return Answer::ended;
        }
        if (deadline.passed()) {
            return Answer::late;
        }
        wait_a_moment(answer_poll);
    }
}

std::string escaped(std::string_view path) {
    std::string text;
    for (const char byte : path) {
        const auto value = static_cast<unsigned char>(byte);
        const bool plain = (value >= '0' && value <= '9') || (value >= 'A' && value <= 'Z') ||
                           (value >= 'a' && value <= 'z') || std::string_view{"-_.~/"}.contains(byte);
        text += plain ? std::string(1, byte) : fmt::format("%{:02X}", value);
    }
    return text;
}

std::string url_of(const ServerHome& home) {
    return fmt::format("postgresql:///settle?host={}&port=5432&user=settle", escaped(socket_directory(home)));
}

std::unexpected<Error> late(const ServerHome& home, pid_t pid) {
    return fail(Code::database_unreachable,
                fmt::format("the private server (pid {}) runs but does not answer at {}: wait and run the command "
                            "again, or stop it with `settle db down` (its log is {})",
                            pid, socket_directory(home), home.log_file()));
}

// The number in a dead server's lock files may be another process's by now, and PostgreSQL would then take itself for
// running. (Even so two servers never share the cluster: their shared memory tells them.)
void clear_leftovers(const ServerHome& home) {
    const PidFile state = find_postmaster(home).state;
    if (state == PidFile::foreign) {
        unlink((home.data() + "/postmaster.pid").c_str());
    }
    if (state == PidFile::foreign || state == PidFile::none) {
        unlink((socket_directory(home) + "/.s.PGSQL.5432.lock").c_str());
    }
}

Program postgres(const ServerHome& home, const std::string& binaries) {
    const std::string sockets = socket_directory(home);
    return {.path = binaries + "/postgres",
            // Given here, these win over every file: the promise of durability is not a setting.
            .arguments = {"-D", std::string{inherited_directory}, "-c", "fsync=on", "-c", "synchronous_commit=on", "-c",
                          "full_page_writes=on", "-c", "listen_addresses=", "-c", "port=5432", "-c",
                          // Relative: the server's user need not be able to walk there from the root.
                          "unix_socket_directories=" + (sockets == home.data() ? "." : sockets), "-c",
                          "unix_socket_permissions=0700", "-c", "logging_collector=off", "-c", "log_destination=stderr",
                          "-c", "cluster_name=settle"}};
}

struct Start {
    Answer answer = Answer::ended;
    pid_t pid = 0;
    std::string reason;  // where it ended
};

Result<Start> start_server(const ServerHome& home, const ServerUser& user, const std::string& binaries, int log,
                           Deadline deadline) {
    clear_leftovers(home);
    const FileDescriptor directory{open(home.data().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (!directory) {
        return fail(Code::database_unreachable, fmt::format("cannot open {}: {}", home.data(), std::strerror(errno)));
    }
    const off_t log_begin = size_of(home.log_file());
    auto pid = spawn_server(postgres(home, binaries), user, directory.get(), log);
    if (!pid) {
        return std::unexpected{pid.error()};
    }
    Start start{.answer = wait_for_answer(url_of(home), *pid, deadline), .pid = *pid, .reason = {}};
    if (start.answer == Answer::ended) {
        start.reason = reason_in(read_from(home.log_file(), log_begin));
    }
    return start;
}

// A server that was killed may leave a backend that is busy and has not noticed: it holds the shared memory a while.
bool is_held_by_leftover(const Start& start) {
    return start.answer == Answer::ended && start.reason.find("shared memory block") != std::string::npos;
}

Result<std::string> start_until_it_answers(const ServerHome& home, const ServerUser& user, Deadline deadline) {
    auto binaries = find_binaries(home, user, deadline);
    if (!binaries) {
        return binaries;
    }
    auto log = open_log(home);
    if (!log) {
        return std::unexpected{log.error()};
    }
    if (auto made = make_socket_directory(home, user); !made) {
        return std::unexpected{made.error()};
    }
    auto major = cluster_major(home);
    if (major && !*major) {
        if (auto made = create_cluster(home, user, *binaries, log->get(), deadline); !made) {
            return std::unexpected{made.error()};
        }
    }
    for (;;) {
        auto start = start_server(home, user, *binaries, log->get(), deadline);
        if (!start) {
            return std::unexpected{start.error()};
        }
        if (start->answer == Answer::yes) {
            return url_of(home);
        }
        if (start->answer == Answer::late) {
            return late(home, start->pid);
        }
        if (!is_held_by_leftover(*start) || deadline.passed()) {
            return fail(
                Code::database_unreachable,
                fmt::format("the private server did not start: {}{}",
                            start->reason.empty() ? "it gave no reason" : start->reason, advice(home, start->reason)));
        }
        wait_a_moment(leftover_poll);
    }
}

}  // namespace

Result<PrivateServer> PrivateServer::at_home() {
    auto home = find_home();
    if (!home) {
        return std::unexpected{home.error()};
    }
    return PrivateServer{home->path};
}

Result<std::string> PrivateServer::up(Deadline deadline) {
    const ServerHome home{.path = home_};
    if (find_postmaster(home).state == PidFile::ours && answers(url())) {
        return url();  // the usual case needs no lock
    }
    if (auto made = make_home(home); !made) {
        return std::unexpected{made.error()};
    }
    auto user = server_user(home);
    if (!user) {
        return std::unexpected{user.error()};
    }
    auto lock = lock_home(home, deadline);
    if (!lock) {
        return std::unexpected{lock.error()};
    }
    if (const Postmaster running = find_postmaster(home); running.state == PidFile::ours) {
        const Answer answer = wait_for_answer(url(), running.pid, deadline);
        if (answer != Answer::ended) {
            return answer == Answer::yes ? Result<std::string>{url()} : late(home, running.pid);
        }
    }
    return start_until_it_answers(home, *user, deadline);
}

Result<void> PrivateServer::down(Deadline deadline) {
    const ServerHome home{.path = home_};
    struct stat state{};
    if (stat(home.data().c_str(), &state) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
        return {};
    }
    auto lock = lock_home(home, deadline);
    if (!lock) {
        return std::unexpected{lock.error()};
    }
    const Postmaster running = find_postmaster(home);
    if (running.state != PidFile::ours) {
        return {};
    }
    if (kill(running.pid, SIGINT) != 0 && errno != ESRCH) {
        return fail(Code::database_unreachable,
                    fmt::format("cannot stop the private server (pid {}): {}", running.pid, std::strerror(errno)));
    }
    while (is_alive(running.pid) && find_postmaster(home).state == PidFile::ours) {
        if (deadline.passed()) {
            return fail(Code::database_unreachable,
                        fmt::format("the private server (pid {}) was told to stop and has not ended yet: look at {}, "
                                    "and run `settle db down` again",
                                    running.pid, home.log_file()));
        }
        wait_a_moment(answer_poll);
    }
    if (const std::string sockets = socket_directory(home); sockets != home.data()) {
        rmdir(sockets.c_str());  // the next start makes it again
    }
    return {};
}

Result<ServerState> PrivateServer::status() const {
    const ServerHome home{.path = home_};
    auto major = cluster_major(home);
    if (!major) {
        return std::unexpected{major.error()};
    }
    const Postmaster running = find_postmaster(home);
    return ServerState{.initialised = major->has_value(),
                       .running = running.state == PidFile::ours,
                       .pid = running.state == PidFile::ours ? running.pid : 0,
                       .version = *major ? std::to_string(**major) : "",
                       .data_directory = home.data(),
                       .log_file = home.log_file(),
                       .url = url()};
}

std::string PrivateServer::url() const {
    return url_of(ServerHome{.path = home_});
}

}  // namespace settle::pg
