#include "handler/process_tree.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

namespace settle::handler {

Children list_children() noexcept {
    Children children;
    std::array<char, 64> path{};
    snprintf(path.data(), path.size(), "/proc/self/task/%d/children", static_cast<int>(gettid()));
    const int file = open(path.data(), O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return children;
    }
    std::array<char, 4096> text{};
    pid_t pid = 0;
    for (ssize_t size = 0; (size = read(file, text.data(), text.size())) > 0;) {
        for (std::size_t at = 0; at < static_cast<std::size_t>(size); ++at) {
            const char character = text[at];
            if (character >= '0' && character <= '9') {
                pid = pid * 10 + (character - '0');
            } else if (pid != 0) {
                if (children.count < children.pids.size()) {
                    children.pids[children.count++] = pid;  // each number is followed by a space
                }
                pid = 0;
            }
        }
    }
    close(file);
    return children;
}

}  // namespace settle::handler
