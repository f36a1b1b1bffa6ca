// How long a holder may go on believing that its lease is its own.
#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>

namespace settle {

// Counts from the start of the machine and, unlike std::steady_clock, also while it sleeps: a lease goes on lapsing
// in the database while a suspended holder sees no time pass.
struct BootClock {
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<BootClock>;
    static constexpr bool is_steady = true;

    static time_point now() noexcept {
        timespec time{};
        clock_gettime(CLOCK_BOOTTIME, &time);
        return time_point{std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec}};
    }
};

// Work under a lease is asked to stop at `stop_at` and is gone by `kill_at`, unless a renewal moves both on.
struct TrustWindow {
    BootClock::time_point stop_at;
    BootClock::time_point kill_at;
};

// Between the request to stop and the end of it.
inline std::chrono::milliseconds stop_grace(std::chrono::milliseconds lease) {
    using namespace std::chrono_literals;
    return std::clamp<std::chrono::milliseconds>(lease / 5, 100ms, 10s);
}

// `sent_at`: when the grant or renewal was *sent*. The database counts the lease from a later moment, so the window
// ends first; the margin covers clocks that run at different rates and the time that killing takes.
inline TrustWindow trust_window(BootClock::time_point sent_at, std::chrono::milliseconds lease) {
    using namespace std::chrono_literals;
    const std::chrono::milliseconds margin = std::clamp<std::chrono::milliseconds>(lease / 10, 50ms, 5s);
    const BootClock::time_point kill_at = sent_at + lease - margin;
    return TrustWindow{.stop_at = kill_at - stop_grace(lease), .kill_at = kill_at};
}

}  // namespace settle
