#include "pg/server_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/text.hpp"

namespace settle::pg {
namespace {

constexpr off_t log_bytes_max = 16 << 20;               // then it is put aside: one old log is enough to look back
constexpr std::size_t socket_path_bytes_max = 107;      // sun_path of Linux, less its end
constexpr std::uintmax_t free_bytes_min = 256U << 10U;  // less than this, and nothing of PostgreSQL can be written
constexpr auto lock_poll = milliseconds{20};            // flock(2) has no time-out

std::unexpected<Error> cannot(std::string_view what, const std::string& path, int error) {
    return fail(Code::database_unreachable,
                fmt::format("cannot {} {}: {}; set SETTLE_HOME to a directory of your own, or name a database with "
                            "--db",
                            what, path, std::strerror(error)));
}

std::optional<std::string> home_of_caller() {
    if (const char* set = std::getenv("HOME"); set != nullptr && *set == '/') {
        return set;
    }
    if (const passwd* entry = getpwuid(geteuid());
        entry != nullptr && entry->pw_dir != nullptr && *entry->pw_dir == '/') {
        return entry->pw_dir;
    }
    return std::nullopt;
}

// What root makes below an ordinary user's directory is that user's: else `sudo settle` would lock them out of it.
Result<void> give_to_owner_of(const std::string& parent, const std::string& path) {
    struct stat above{};
    if (geteuid() != 0 || stat(parent.c_str(), &above) != 0 || above.st_uid == 0) {
        return {};
    }
    const FileDescriptor made{open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC)};
    struct stat own{};
    if (!made || fstat(made.get(), &own) != 0) {
        return cannot("open", path, errno);
    }
    const bool made_here = own.st_uid == 0 && (S_ISDIR(own.st_mode) || own.st_nlink == 1);
    if (made_here && fchown(made.get(), above.st_uid, above.st_gid) != 0) {
        return cannot("change the owner of", path, errno);
    }
    return {};
}

Result<void> make_directory(const std::string& path) {
    if (mkdir(path.c_str(), 0700) == 0) {
        return give_to_owner_of(std::filesystem::path{path}.parent_path(), path);
    }
    if (errno == EEXIST) {
        return {};
    }
    if (errno != ENOENT) {
        return cannot("make the directory", path, errno);
    }
    const std::string parent = std::filesystem::path{path}.parent_path();
    if (parent == path) {
        return cannot("make the directory", path, ENOENT);
    }
    if (auto made = make_directory(parent); !made) {
        return made;
    }
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
        return cannot("make the directory", path, errno);
    }
    return give_to_owner_of(parent, path);
}

// FNV-1a: a short name for a long path. Two paths with one name are told apart by PostgreSQL's socket lock.
std::uint64_t hash_of(std::string_view text) {
    std::uint64_t hash = 0xcbf29ce484222325U;
    for (const char byte : text) {
        hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
    }
    return hash;
}

std::string_view trimmed(std::string_view line) {
    const std::size_t first = line.find_first_not_of(" \t\r");
    return first == std::string_view::npos ? std::string_view{}
                                           : line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

// The text behind the mark of an error that ends a program; nothing where the line has none.
std::optional<std::string_view> fatal_text(std::string_view line) {
    for (const std::string_view mark : {"FATAL:", "PANIC:", "initdb: error:"}) {
        if (const std::size_t at = line.find(mark); at != std::string_view::npos) {
            return trimmed(line.substr(at + mark.size()));
        }
    }
    return std::nullopt;
}

}  // namespace

Result<ServerHome> find_home() {
    std::filesystem::path path;
    if (const char* set = std::getenv("SETTLE_HOME"); set != nullptr && *set != '\0') {
        path = set;
    } else if (const auto home = home_of_caller()) {
        path = std::filesystem::path{*home} / ".local/state/settle";
    } else {
        return fail(Code::database_unreachable,
                    "neither SETTLE_HOME nor HOME is set: set SETTLE_HOME to a directory of your own, or name a "
                    "database with --db");
    }
    if (!is_utf8(path.native())) {
        return fail(Code::database_unreachable, "SETTLE_HOME is not UTF-8: choose another path");
    }
    std::error_code error;
    const auto absolute = std::filesystem::absolute(path, error);
    if (error) {
        return fail(Code::database_unreachable,
                    fmt::format("SETTLE_HOME cannot be resolved ({}): give an absolute path", error.message()));
    }
    // One directory has one name, whichever links lead to it: the socket's name is made from it.
    auto canonical = std::filesystem::weakly_canonical(absolute, error);
    std::string text = error ? absolute.lexically_normal().native() : canonical.native();
    while (text.size() > 1 && text.back() == '/') {
        text.pop_back();
    }
    return ServerHome{.path = text};
}

Result<void> make_home(const ServerHome& home) {
    if (auto made = make_directory(home.path); !made) {
        return made;
    }
    struct stat state{};
    if (stat(home.path.c_str(), &state) != 0) {
        return cannot("use", home.path, errno);
    }
    if (!S_ISDIR(state.st_mode)) {
        return cannot("use", home.path, ENOTDIR);
    }
    if ((state.st_mode & S_IWOTH) != 0) {
        return fail(Code::database_unreachable,
                    fmt::format("everybody may write to {}: set SETTLE_HOME to a directory of your own", home.path));
    }
    return {};
}

Result<ServerUser> server_user(const ServerHome& home) {
    struct stat state{};
    const bool has_data = stat(home.data().c_str(), &state) == 0;
    if (!has_data && stat(home.path.c_str(), &state) != 0) {
        return cannot("use", home.path, errno);
    }
    if (geteuid() != 0) {
        if (has_data && state.st_uid != geteuid()) {
            return fail(Code::database_unreachable,
                        fmt::format("{} belongs to another user (uid {}): set SETTLE_HOME to a directory of your own, "
                                    "or name a database with --db",
                                    home.data(), state.st_uid));
        }
        return ServerUser{.uid = geteuid(), .gid = getegid(), .other = false};
    }
    if (state.st_uid != 0) {
        const passwd* entry = getpwuid(state.st_uid);
        return ServerUser{.uid = state.st_uid, .gid = entry != nullptr ? entry->pw_gid : state.st_gid, .other = true};
    }
    if (has_data) {
        return fail(Code::database_unreachable,
                    fmt::format("{} belongs to root, as whom PostgreSQL does not run: run `chown -R postgres: {}`",
                                home.data(), home.data()));
    }
    for (const char* name : {"postgres", "nobody"}) {
        if (const passwd* entry = getpwnam(name); entry != nullptr && entry->pw_uid != 0) {
            return ServerUser{.uid = entry->pw_uid, .gid = entry->pw_gid, .other = true};
        }
    }
    return fail(Code::database_unreachable,
                "PostgreSQL does not run as root, and there is neither a user `postgres` nor `nobody`: make one, or "
                "name a database with --db");
}

Result<FileDescriptor> lock_home(const ServerHome& home, Deadline deadline) {
    FileDescriptor lock{open(home.lock_file().c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
    if (!lock) {
        return cannot("open", home.lock_file(), errno);
    }
    if (auto given = give_to_owner_of(home.path, home.lock_file()); !given) {
        return std::unexpected{given.error()};
    }
    while (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            return cannot("lock", home.lock_file(), errno);
        }
        if (deadline.passed()) {
            return fail(Code::database_unreachable,
                        fmt::format("another process has been starting or stopping the private server for long (it "
                                    "holds {}): wait for it, or look at {}",
                                    home.lock_file(), home.log_file()));
        }
        poll(nullptr, 0, static_cast<int>(lock_poll.count()));
    }
    return lock;
}

Result<FileDescriptor> open_log(const ServerHome& home) {
    const std::string path = home.log_file();
    if (size_of(path) > log_bytes_max) {
        static_cast<void>(rename(path.c_str(), (path + ".1").c_str()));  // a log that stays is no reason not to start
    }
    FileDescriptor log{open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
    if (!log) {
        return cannot("open", path, errno);
    }
    if (auto given = give_to_owner_of(home.path, path); !given) {
        return std::unexpected{given.error()};
    }
    return log;
}

std::string reason_in(std::string_view output) {
    std::string fatal;
    std::string last;
    bool takes_detail = false;
    for (std::size_t at = 0; at < output.size();) {
        const std::size_t end = std::min(output.find('\n', at), output.size());
        const std::string_view line = trimmed(output.substr(at, end - at));
        at = end + 1;
        if (line.empty()) {
            continue;
        }
        last = line;
        if (const auto text = fatal_text(line)) {
            // What the server tells those who come too early is no reason.
            takes_detail = !text->starts_with("the database system is");
            if (takes_detail) {
                fatal = *text;
            }
            continue;
        }
        for (const std::string_view mark : {"DETAIL:", "HINT:"}) {
            if (const std::size_t found = line.find(mark); takes_detail && found != std::string_view::npos) {
                fatal += fmt::format(" ({})", trimmed(line.substr(found + mark.size())));
                takes_detail = false;
            }
        }
    }
    return fatal.empty() ? last : fatal;
}

off_t size_of(const std::string& path) {
    struct stat state{};
    return stat(path.c_str(), &state) == 0 ? state.st_size : 0;
}

std::string read_from(const std::string& path, off_t offset) {
    const FileDescriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    std::string text;
    std::array<char, 4096> part{};
    constexpr std::size_t most = 1U << 20U;
    while (file && text.size() < most) {
        const ssize_t got = pread(file.get(), part.data(), part.size(), offset + static_cast<off_t>(text.size()));
        if (got <= 0) {
            break;
        }
        text.append(part.data(), static_cast<std::size_t>(got));
    }
    return text;
}

bool is_disk_full(const std::string& path) {
    struct statvfs state{};
    if (statvfs(path.c_str(), &state) != 0) {
        return false;
    }
    return std::uintmax_t{state.f_bavail} * state.f_frsize < free_bytes_min ||
           (state.f_files != 0 && state.f_favail == 0);
}

std::string advice(const ServerHome& home, std::string_view reason) {
    if (reason.find("No space left on device") != std::string_view::npos || is_disk_full(home.path)) {
        return fmt::format(" (the disk of {} is full: free some space there, then run the command again)", home.path);
    }
    return fmt::format(" (its log is {})", home.log_file());
}

std::string socket_directory(const ServerHome& home) {
    constexpr std::string_view socket_name = "/.s.PGSQL.5432";
    // libpq takes a comma for the start of the next host.
    if (home.data().size() + socket_name.size() <= socket_path_bytes_max && !home.data().contains(',')) {
        return home.data();
    }
    return fmt::format("/tmp/settle-{:016x}", hash_of(home.path));
}

Result<void> make_socket_directory(const ServerHome& home, const ServerUser& user) {
    const std::string path = socket_directory(home);
    if (path == home.data()) {
        return {};
    }
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
        return cannot("make the directory", path, errno);
    }
    const FileDescriptor directory{open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
    struct stat state{};
    if (!directory || fstat(directory.get(), &state) != 0) {
        return cannot("open", path, errno);
    }
    if (user.other && state.st_uid == geteuid()) {
        if (fchown(directory.get(), user.uid, user.gid) != 0) {
            return cannot("change the owner of", path, errno);
        }
        state.st_uid = user.uid;
    }
    if (state.st_uid != user.uid || (state.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return fail(Code::database_unreachable,
                    fmt::format("{} was made by somebody else (uid {}, mode {:o}): remove it, or set SETTLE_HOME to a "
                                "shorter path",
                                path, state.st_uid, state.st_mode & 07777U));
    }
    return {};
}

}  // namespace settle::pg
