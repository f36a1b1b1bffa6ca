#include "pg/server_binaries.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "pg/server_process.hpp"

namespace settle::pg {
namespace {

constexpr std::string_view installed_under = "/usr/lib/postgresql";

bool is_complete(const std::string& directory) {
    return access((directory + "/postgres").c_str(), X_OK) == 0 && access((directory + "/initdb").c_str(), X_OK) == 0;
}

std::optional<int> leading_number(std::string_view text) {
    int number = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    return parsed.ec == std::errc{} ? std::optional{number} : std::nullopt;
}

std::unexpected<Error> wrong_version(const ServerHome& home, int cluster, std::string_view remedy) {
    return fail(
        Code::database_unreachable,
        fmt::format("the cluster in {} was made by PostgreSQL {}{}, or move that directory away to begin with an "
                    "empty one",
                    home.data(), cluster, remedy));
}

// "postgres (PostgreSQL) 15.8 (Debian …)"
Result<int> major_of(const std::string& directory, const ServerUser& user, Deadline deadline) {
    const Program program{.path = directory + "/postgres", .arguments = {"--version"}};
    auto ended = run_program(program, user, -1, {}, deadline);
    if (!ended) {
        return std::unexpected{ended.error()};
    }
    constexpr std::string_view mark = "(PostgreSQL) ";
    const std::size_t at = ended->output.find(mark);
    const auto major = at == std::string::npos
                           ? std::nullopt
                           : leading_number(std::string_view{ended->output}.substr(at + mark.size()));
    if (!ended->good || !major) {
        return fail(Code::database_unreachable,
                    fmt::format("{} does not tell its version ({}): set SETTLE_PG_BIN to a directory with PostgreSQL's "
                                "`postgres` and `initdb`, or unset it",
                                program.path, reason_in(ended->output)));
    }
    return *major;
}

Result<std::string> named_binaries(const std::string& directory, std::optional<int> cluster, const ServerHome& home,
                                   const ServerUser& user, Deadline deadline) {
    if (!is_complete(directory)) {
        return fail(Code::database_unreachable,
                    fmt::format("there is no PostgreSQL server in SETTLE_PG_BIN ({} has no `postgres` and `initdb` to "
                                "run): set it to the directory that has them, or unset it",
                                directory));
    }
    auto major = major_of(directory, user, deadline);
    if (!major) {
        return std::unexpected{major.error()};
    }
    if (cluster && *cluster != *major) {
        return wrong_version(
            home, *cluster,
            fmt::format(", and SETTLE_PG_BIN names a PostgreSQL {}: name the cluster's version there", *major));
    }
    if (*major < server_major_min) {
        return fail(
            Code::database_unreachable,
            fmt::format("SETTLE_PG_BIN names a PostgreSQL {}: Settle needs {} or later", *major, server_major_min));
    }
    return directory;
}

std::optional<int> highest_installed() {
    std::optional<int> highest;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator{installed_under, error}) {
        const std::string name = entry.path().filename();
        const auto major = leading_number(name);
        if (major >= server_major_min && name == std::to_string(*major) && is_complete(entry.path() / "bin") &&
            major > highest) {
            highest = major;
        }
    }
    return highest;
}

}  // namespace

Result<std::optional<int>> cluster_major(const ServerHome& home) {
    std::error_code error;
    if (!std::filesystem::exists(home.data(), error) && !error) {
        return std::nullopt;
    }
    if (const auto major = leading_number(read_from(home.data() + "/PG_VERSION", 0))) {
        return major;
    }
    const bool empty = std::filesystem::is_empty(home.data(), error);
    if (error) {
        return fail(Code::database_unreachable,
                    fmt::format("cannot read {} ({}): set SETTLE_HOME to a directory of your own, or name a database "
                                "with --db",
                                home.data(), error.message()));
    }
    if (empty) {
        return std::nullopt;
    }
    return fail(Code::database_unreachable,
                fmt::format("{} is no whole PostgreSQL cluster (it has no PG_VERSION): restore it, or move it away to "
                            "begin with an empty one",
                            home.data()));
}

Result<std::string> find_binaries(const ServerHome& home, const ServerUser& user, Deadline deadline) {
    auto cluster = cluster_major(home);
    if (!cluster) {
        return std::unexpected{cluster.error()};
    }
    if (*cluster && **cluster < server_major_min) {
        return fail(Code::database_unreachable,
                    fmt::format("the cluster in {} was made by PostgreSQL {}, and Settle needs {} or later: move that "
                                "directory away to begin with an empty one",
                                home.data(), **cluster, server_major_min));
    }
    if (const char* named = std::getenv("SETTLE_PG_BIN"); named != nullptr && *named != '\0') {
        return named_binaries(std::filesystem::absolute(named).lexically_normal(), *cluster, home, user, deadline);
    }
    const auto major = *cluster ? *cluster : highest_installed();
    if (!major) {
        return fail(Code::database_unreachable,
                    fmt::format("no PostgreSQL server ({} or later) is installed: run `apt-get install postgresql`, or "
                                "name a database with --db or SETTLE_DB",
                                server_major_min));
    }
    std::string directory = fmt::format("{}/{}/bin", installed_under, *major);
    if (!is_complete(directory)) {
        return wrong_version(
            home, *major, fmt::format(", whose server is not installed: run `apt-get install postgresql-{}`", *major));
    }
    return directory;
}

}  // namespace settle::pg
