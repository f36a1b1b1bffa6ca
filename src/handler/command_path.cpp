#include "handler/command_path.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "base/text.hpp"

namespace settle::handler {
namespace {

enum class Candidate { absent, directory, not_executable, usable };

Candidate look_at(const std::string& path) {
    struct stat status{};
    if (stat(path.c_str(), &status) != 0) {
        return errno == EACCES ? Candidate::not_executable : Candidate::absent;
    }
    if (S_ISDIR(status.st_mode)) {
        return Candidate::directory;
    }
    const bool usable = S_ISREG(status.st_mode) && faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0;
    return usable ? Candidate::usable : Candidate::not_executable;
}

std::unexpected<CommandNotUsable> not_found(std::string_view name, std::string_view where) {
    return std::unexpected{
        CommandNotUsable{127, fmt::format("{}: command not found{}; nothing was begun", printable(name), where)}};
}

std::unexpected<CommandNotUsable> not_executable(std::string_view path, std::string_view why) {
    return std::unexpected{CommandNotUsable{126, fmt::format("{}: {}; nothing was begun", printable(path), why)}};
}

constexpr std::string_view no_permission = "permission to execute is denied";

}  // namespace

std::expected<std::string, CommandNotUsable> find_command(std::string_view name, std::string_view search_path) {
    if (name.empty() || name.find('\0') != std::string_view::npos) {
        return not_found(name.empty() ? "(empty name)" : name, "");
    }
    if (name.find('/') != std::string_view::npos) {
        std::string path{name};
        switch (look_at(path)) {
            case Candidate::absent:
                return not_found(name, "");
            case Candidate::directory:
                return not_executable(name, "is a directory");
            case Candidate::not_executable:
                return not_executable(name, no_permission);
            case Candidate::usable:
                return path;
        }
    }
    std::string refused;
    for (std::size_t at = 0; at <= search_path.size();) {
        const std::size_t end = std::min(search_path.find(':', at), search_path.size());
        const std::string_view folder = search_path.substr(at, end - at);
        at = end + 1;
        std::string path = fmt::format("{}/{}", folder.empty() ? "." : folder, name);
        const Candidate candidate = look_at(path);
        if (candidate == Candidate::usable) {
            return path;
        }
        if (candidate == Candidate::not_executable && refused.empty()) {
            refused = std::move(path);
        }
    }
    if (!refused.empty()) {
        return not_executable(refused, no_permission);
    }
    return not_found(name, " in PATH");
}

std::expected<std::string, CommandNotUsable> find_command(std::string_view name) {
    if (const char* search_path = std::getenv("PATH"); search_path != nullptr) {
        return find_command(name, search_path);
    }
    std::string standard(confstr(_CS_PATH, nullptr, 0), '\0');
    confstr(_CS_PATH, standard.data(), standard.size());
    standard.resize(std::min(standard.size(), standard.find('\0')));
    return find_command(name, standard);
}

}  // namespace settle::handler
