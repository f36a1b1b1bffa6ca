// Keeps a lease alive while work goes on under it, on a thread and a connection of its own: a renewal must not wait for
// the work, nor the work for a renewal.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/trust_window.hpp"

namespace settle::engine {

enum class Beat {
    renewed,
    lost,  // the database says that the lease is another's, or has lapsed
};

struct HeartbeatPlan {
    std::chrono::milliseconds lease{};
    BootClock::time_point granted_at;  // when the grant was sent, not when it was answered
    // One try to renew. An error means that the database could not be asked, and is tried again until the window ends.
    std::function<Result<Beat>(Deadline)> renew;
    // With each confirmed renewal, and once when there is nothing more to hold. Called from the heartbeat's thread.
    std::function<void(const TrustWindow&)> on_renewed;
    std::function<void()> on_lost;
};

// Renews at a third of the lease after each confirmed renewal, and more often after one that failed. Ends when the
// lease is lost, or when the trust window is over without a renewal.
class Heartbeat {
public:
    explicit Heartbeat(HeartbeatPlan plan);
    Heartbeat(const Heartbeat&) = delete;
    Heartbeat& operator=(const Heartbeat&) = delete;
    Heartbeat(Heartbeat&&) = delete;
    Heartbeat& operator=(Heartbeat&&) = delete;
    // Waits for the try that is under way, which ends at its own deadline.
    ~Heartbeat() = default;

    [[nodiscard]] bool lost() const noexcept { return lost_; }

private:
    void run(const std::stop_token& stop);
    // False once asked to stop.
    bool wait_until(BootClock::time_point when, const std::stop_token& stop);
    void lose();

    HeartbeatPlan plan_;
    std::atomic<bool> lost_ = false;
    std::mutex mutex_;
    std::condition_variable_any stopping_;
    std::jthread thread_;  // last: it uses the others, and is stopped and joined first
};

}  // namespace settle::engine
