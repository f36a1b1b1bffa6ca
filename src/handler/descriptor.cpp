#include "handler/descriptor.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace settle::handler {
namespace {

constexpr int first_free = 3;  // above the standard streams

std::unexpected<Error> no_pipe() {
    return fail(Code::internal, fmt::format("no pipe could be made: {}", std::generic_category().message(errno)));
}

}  // namespace

void Descriptor::close() noexcept {
    if (number_ >= 0) {
        ::close(std::exchange(number_, -1));
    }
}

Result<Pipe> make_pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
        return no_pipe();
    }
    Pipe made{Descriptor{ends[0]}, Descriptor{ends[1]}};
    for (Descriptor* end : {&made.read_end, &made.write_end}) {
        if (end->number() < first_free) {
            const int moved = fcntl(end->number(), F_DUPFD_CLOEXEC, first_free);
            if (moved < 0) {
                return no_pipe();
            }
            *end = Descriptor{moved};
        }
    }
    return made;
}

void set_non_blocking(const Descriptor& descriptor) noexcept {
    const int flags = fcntl(descriptor.number(), F_GETFL);
    if (flags >= 0) {
        fcntl(descriptor.number(), F_SETFL, flags | O_NONBLOCK);
    }
}

}  // namespace settle::handler
