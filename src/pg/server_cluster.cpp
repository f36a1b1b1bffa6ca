#include "pg/server_cluster.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <clocale>
#include <cstring>
#include <filesystem>

#include "pg/cluster_sql.hpp"
#include "pg/server_process.hpp"

namespace settle::pg {
namespace {

constexpr std::string_view unfinished_prefix = "data.new-";

// Written once, and the user's to change. What must not be changed is given at each start.
constexpr std::string_view settings = R"(
# Settle's private server
max_connections = 300                   # a worker or `settle exec` holds two
timezone = 'UTC'
log_timezone = 'UTC'
dynamic_shared_memory_type = mmap       # /dev/shm is small in containers, and emptied when its user logs out
client_connection_check_interval = 1s   # a client that died does not go on working
log_checkpoints = off
search_path = 'public'                  # without "$user": the role is named as the product's schema is
)";

std::unexpected<Error> cannot(const ServerHome& home, std::string_view what, int error) {
    const std::string reason = std::strerror(error);
    return fail(Code::database_unreachable, fmt::format("{}: {}{}", what, reason, advice(home, reason)));
}

Result<void> run_step(const ServerHome& home, const ServerUser& user, const Program& program, int directory, int log,
                      std::string_view input, Deadline deadline) {
    auto ended = run_program(program, user, directory, input, deadline);
    if (!ended) {
        return std::unexpected{ended.error()};
    }
    static_cast<void>(!write(log, ended->output.data(), ended->output.size()));  // on a full disk it is lost
    if (!ended->good) {
        const std::string reason = reason_in(ended->output);
        return fail(Code::database_unreachable,
                    fmt::format("the private database cannot be made: {}{}", reason, advice(home, reason)));
    }
    return {};
}

Program initdb(const std::string& binaries) {
    // C.UTF-8 knows letters beyond ASCII and orders by code point, like C.
    const locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    if (utf8 != nullptr) {
        freelocale(utf8);
    }
    return {.path = binaries + "/initdb",
            .arguments = {"-D", std::string{inherited_directory}, "--username=settle", "--encoding=UTF8", "--locale=C",
                          utf8 != nullptr ? "--lc-ctype=C.UTF-8" : "--lc-ctype=C", "--data-checksums",
                          // No password: the socket lies in a directory that is closed to everybody else.
                          "--auth-local=trust", "--auth-host=reject"}};
}

Program create_database(const std::string& binaries) {
    return {.path = binaries + "/postgres",
            .arguments = {"--single", "-D", std::string{inherited_directory}, "-c", "exit_on_error=on", "postgres"}};
}

// By the descriptor: root follows no name in a directory that is another user's by now.
Result<void> append_settings(const ServerHome& home, int directory) {
    const FileDescriptor file{openat(directory, "postgresql.conf", O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW)};
    errno = file ? ENOSPC : errno;  // a short write says nothing
    if (!file || write(file.get(), settings.data(), settings.size()) != static_cast<ssize_t>(settings.size()) ||
        fsync(file.get()) != 0) {
        return cannot(home, "cannot write postgresql.conf", errno);
    }
    return {};
}

Result<void> fill(const ServerHome& home, const ServerUser& user, const std::string& binaries, const std::string& path,
                  int log, Deadline deadline) {
    const FileDescriptor directory{open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
    if (!directory) {
        return cannot(home, fmt::format("cannot open {}", path), errno);
    }
    if (user.other && fchown(directory.get(), user.uid, user.gid) != 0) {
        return fail(Code::database_unreachable,
                    fmt::format("PostgreSQL does not run as root, and root may not give a directory to user {} here "
                                "({}): run this as an ordinary user, or name a database with --db",
                                user.uid, std::strerror(errno)));
    }
    if (auto made = run_step(home, user, initdb(binaries), directory.get(), log, {}, deadline); !made) {
        return made;
    }
    if (auto written = append_settings(home, directory.get()); !written) {
        return written;
    }
    return run_step(home, user, create_database(binaries), directory.get(), log, cluster_sql::create_database,
                    deadline);
}

Result<void> put_in_place(const ServerHome& home, const std::string& path) {
    if (rename(path.c_str(), home.data().c_str()) != 0) {
        return cannot(home, fmt::format("cannot rename {}", path), errno);
    }
    const FileDescriptor directory{open(home.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (!directory || fsync(directory.get()) != 0) {
        return cannot(home, fmt::format("cannot write {}", home.path), errno);
    }
    return {};
}

// What an interrupted attempt has left.
void remove_unfinished(const ServerHome& home) {
    std::error_code error;
    std::vector<std::filesystem::path> leftovers;
    for (const auto& entry : std::filesystem::directory_iterator{home.path, error}) {
        if (entry.path().filename().native().starts_with(unfinished_prefix)) {
            leftovers.push_back(entry.path());
        }
    }
    for (const auto& path : leftovers) {
        std::filesystem::remove_all(path, error);
    }
}

}  // namespace

Result<void> create_cluster(const ServerHome& home, const ServerUser& user, const std::string& binaries, int log,
                            Deadline deadline) {
    remove_unfinished(home);
    std::string path = fmt::format("{}/{}XXXXXX", home.path, unfinished_prefix);
    if (mkdtemp(path.data()) == nullptr) {
        return cannot(home, fmt::format("cannot make a directory in {}", home.path), errno);
    }
    auto made = fill(home, user, binaries, path, log, deadline);
    if (made) {
        made = put_in_place(home, path);
    }
    if (!made) {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }
    return made;
}

}  // namespace settle::pg
