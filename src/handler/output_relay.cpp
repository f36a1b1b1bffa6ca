#include "handler/output_relay.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

namespace settle::handler {
namespace {

constexpr std::size_t pending_limit_bytes = 64U << 10U;
constexpr std::size_t drain_limit_bytes = 1U << 20U;  // the largest pipe a plain user may have

}  // namespace

OutputRelay::OutputRelay(Descriptor from, int to) : from_(std::move(from)), to_(to) {
    set_non_blocking(from_);
}

pollfd OutputRelay::source() const noexcept {
    const bool room = pending_.size() < pending_limit_bytes;
    return {from_.is_open() && room ? from_.number() : -1, POLLIN, 0};
}

pollfd OutputRelay::target() const noexcept {
    return {pending_.empty() ? -1 : to_, POLLOUT, 0};
}

std::size_t OutputRelay::take(std::size_t most) {
    std::array<char, 16384> bytes{};
    const ssize_t size = read(from_.number(), bytes.data(), std::min(most, bytes.size()));
    if (size > 0) {
        const std::string_view taken{bytes.data(), static_cast<std::size_t>(size)};
        kept_.append(taken);
        if (to_ >= 0) {
            pending_ += taken;
        }
        return taken.size();
    }
    if (size == 0 || (errno != EAGAIN && errno != EINTR)) {
        from_.close();
    }
    return 0;
}

void OutputRelay::read_some() {
    take(pending_limit_bytes);
}

void OutputRelay::write_some() {
    if (pending_.empty()) {
        return;
    }
    // A pipe that polls as writable takes PIPE_BUF bytes without blocking, and no more for certain.
    const ssize_t size = write(to_, pending_.data(), std::min<std::size_t>(pending_.size(), PIPE_BUF));
    if (size >= 0) {
        pending_.erase(0, static_cast<std::size_t>(size));
    } else if (errno != EAGAIN && errno != EINTR) {
        to_ = -1;
        pending_.clear();
    }
}

void OutputRelay::drain() {
    for (std::size_t total = 0; from_.is_open() && total < drain_limit_bytes;) {
        const std::size_t size = take(drain_limit_bytes);
        if (size == 0 && from_.is_open()) {
            break;
        }
        total += size;
    }
    from_.close();
    for (pollfd receiver = target(); receiver.fd >= 0 && poll(&receiver, 1, 0) == 1; receiver = target()) {
        write_some();
    }
}

void OutputRelay::flush(SignalGate& signals) {
    while (!pending_.empty()) {
        std::array<pollfd, 2> files{target(), pollfd{signals.descriptor(), POLLIN, 0}};
        poll(files.data(), files.size(), -1);
        if (files[0].revents != 0) {
            write_some();
        } else if (files[1].revents != 0) {
            return;
        }
    }
}

}  // namespace settle::handler
