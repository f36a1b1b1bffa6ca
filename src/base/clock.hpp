// Monotonic time only: a wall clock may be stepped, and the database's clock decides the rest.
#pragma once

#include <algorithm>
#include <chrono>

namespace settle {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A point after which nobody may go on waiting. Copyable; thread-safe, as it never changes.
class Deadline {
public:
    static Deadline in(Clock::duration time) { return Deadline{Clock::now() + time}; }
    static Deadline at(Clock::time_point when) { return Deadline{when}; }
    static Deadline never() { return Deadline{Clock::time_point::max()}; }

    // This one, or a nearer one after `time`: a step's own limit within a caller's.
    [[nodiscard]] Deadline at_most(Clock::duration time) const { return Deadline{std::min(when_, in(time).when_)}; }

    [[nodiscard]] Clock::time_point when() const noexcept { return when_; }
    [[nodiscard]] bool passed() const noexcept { return Clock::now() >= when_; }
    // What is left, never negative, rounded up to whole milliseconds: fit for poll(2).
    [[nodiscard]] milliseconds left() const noexcept {
        return std::max(milliseconds{0}, std::chrono::ceil<milliseconds>(when_ - Clock::now()));
    }

private:
    explicit Deadline(Clock::time_point when) : when_(when) {}
    Clock::time_point when_;
};

}  // namespace settle
