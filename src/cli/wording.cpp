#include "cli/wording.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/text.hpp"

namespace settle::cli {

void warn(std::string_view line) {
    write_bytes(STDERR_FILENO, fmt::format("settle: {}\n", printable(line)));
}

void write_bytes(int descriptor, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t written = write(descriptor, bytes.data(), bytes.size());
        if (written >= 0) {
            bytes.remove_prefix(static_cast<std::size_t>(written));
        } else if (errno == EAGAIN) {
            pollfd waits{.fd = descriptor, .events = POLLOUT, .revents = 0};
            poll(&waits, 1, -1);
        } else if (errno != EINTR) {
            return;
        }
    }
}

std::string rfc3339(std::string_view timestamp) {
    constexpr std::size_t date_bytes = 10;
    std::string text{timestamp};
    if (text.size() <= date_bytes || text[date_bytes] != ' ' || text[4] != '-') {
        return text;  // another date style: better as it is than guessed at
    }
    text[date_bytes] = 'T';
    const std::size_t zone = text.find_last_of("+-");
    if (zone > date_bytes && text.size() - zone == 3) {
        text += ":00";
    }
    if (text.ends_with("+00:00")) {
        text.replace(text.size() - 6, 6, "Z");
    }
    return text;
}

std::string rfc3339(std::chrono::system_clock::time_point time) {
    const auto milliseconds = std::chrono::floor<std::chrono::milliseconds>(time);
    const auto seconds = std::chrono::floor<std::chrono::seconds>(milliseconds);
    return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)),
                       (milliseconds - seconds).count());
}

std::string outside_name(const Context& context, std::string_view name) {
    return context.name_space == "default" ? std::string{name} : fmt::format("{}/{}", context.name_space, name);
}

std::string json_or_null(const std::optional<std::string>& text) {
    return text ? json_string(*text) : "null";
}

std::string json_or_null(std::optional<std::int64_t> number) {
    return number ? std::to_string(*number) : "null";
}

std::string unique_holder() {
    std::array<char, 256> host{};
    gethostname(host.data(), host.size() - 1);
    return fmt::format("{:.100}:{}:{}", printable(host.data()), getpid(), random_id());
}

}  // namespace settle::cli
