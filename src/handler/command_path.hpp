// Which file a command names.
#pragma once

#include <expected>
#include <string>
#include <string_view>

namespace settle::handler {

struct CommandNotUsable {
    int exit_status = 127;  // as shells do: 127 not found, 126 found but not executable
    std::string message;    // one line
};

// As a shell finds it: a name with a slash is a path, any other is searched in `search_path` (PATH), where an empty
// element is the working directory. An executable file further on wins over one that is not executable.
std::expected<std::string, CommandNotUsable> find_command(std::string_view name, std::string_view search_path);

// The same in this process's PATH, or in the system's default where it is not set.
std::expected<std::string, CommandNotUsable> find_command(std::string_view name);

}  // namespace settle::handler
