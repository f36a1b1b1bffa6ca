// One output stream of a command on its way to a stream of this process.
#pragma once

#include <poll.h>

#include <string>

#include "handler/descriptor.hpp"
#include "handler/kept_output.hpp"
#include "handler/signal_gate.hpp"

namespace settle::handler {

// Passes bytes on as they come and keeps their end. While the receiver is slow it reads no further, so that the command
// feels the same pressure as without it; once the receiver is gone it goes on reading and keeping.
class OutputRelay {
public:
    OutputRelay(Descriptor from, int to);

    // For poll: -1 where there is nothing to wait for.
    [[nodiscard]] pollfd source() const noexcept;
    [[nodiscard]] pollfd target() const noexcept;

    void read_some();
    void write_some();
    // All that lies in the pipe now, and on to the receiver what it takes at once. Waits for nothing.
    void drain();
    // Writes what is left, however slow the receiver; a signal ends the wait.
    void flush(SignalGate& signals);

    [[nodiscard]] const KeptOutput& kept() const noexcept { return kept_; }

private:
    // Returns what was read; 0 at the end of the stream, or where nothing lies there.
    std::size_t take(std::size_t most);

    Descriptor from_;
    int to_;
    std::string pending_;
    KeptOutput kept_;
};

}  // namespace settle::handler
