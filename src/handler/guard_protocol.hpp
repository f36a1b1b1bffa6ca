// What passes between a program and the guard of its command: fixed-size messages, each written whole to a pipe.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/trust_window.hpp"

namespace settle::handler {

// Why the guard stopped the command, as against a command that ended by itself.
enum class StopReason : std::int32_t {
    none,
    window_ended,  // no renewal was confirmed in time
    told,          // the program said that the lease is lost
    time_limit,    // --max-time
    parent_gone,   // the program has died
};

struct Order {
    enum class Kind : std::int32_t { window, stop, signal };
    Kind kind = Kind::window;
    std::int32_t signal = 0;
    std::int64_t stop_at_ns = 0;  // on BootClock
    std::int64_t kill_at_ns = 0;
};

struct Report {
    enum class Kind : std::int32_t {
        forked,       // pid: the command's process and its group
        started,      // the command's own program runs
        not_started,  // value: errno
        suspended,    // value: the signal that stopped it (job control)
        stopping,     // reason
        ended,        // code: si_code; value: exit status or signal; reason
    };
    Kind kind = Kind::forked;
    std::int32_t pid = 0;
    std::int32_t code = 0;
    std::int32_t value = 0;
    StopReason reason = StopReason::none;
};

static_assert(std::is_trivially_copyable_v<Order> && sizeof(Order) <= 512, "a pipe takes 512 bytes whole everywhere");
static_assert(std::is_trivially_copyable_v<Report> && sizeof(Report) <= 512);

}  // namespace settle::handler
