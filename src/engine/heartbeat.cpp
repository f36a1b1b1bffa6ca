#include "engine/heartbeat.hpp"

#include <algorithm>
#include <utility>

namespace settle::engine {
namespace {

using namespace std::chrono_literals;

// One try may take so long that a dead connection leaves time for another one.
std::chrono::milliseconds try_time(std::chrono::milliseconds lease) {
    return std::clamp<std::chrono::milliseconds>(lease / 4, 250ms, 10s);
}

std::chrono::milliseconds pause_after_failure(std::chrono::milliseconds lease) {
    return std::clamp<std::chrono::milliseconds>(lease / 20, 50ms, 1s);
}

}  // namespace

Heartbeat::Heartbeat(HeartbeatPlan plan)
    : plan_(std::move(plan)), thread_([this](const std::stop_token& stop) { run(stop); }) {}

bool Heartbeat::wait_until(BootClock::time_point when, const std::stop_token& stop) {
    std::unique_lock lock{mutex_};
    // The condition variable counts on another clock; a wake-up that comes early by it just waits again.
    for (auto left = when - BootClock::now(); left > 0ns && !stop.stop_requested(); left = when - BootClock::now()) {
        stopping_.wait_for(lock, stop, left, [] { return false; });
    }
    return !stop.stop_requested();
}

void Heartbeat::lose() {
    lost_ = true;
    plan_.on_lost();
}

void Heartbeat::run(const std::stop_token& stop) {
    BootClock::time_point next = plan_.granted_at + plan_.lease / 3;
    TrustWindow window = trust_window(plan_.granted_at, plan_.lease);
    while (wait_until(next, stop)) {
        const auto sent_at = BootClock::now();
        if (sent_at >= window.kill_at) {
            lose();
            return;
        }
        const Result<Beat> beat = plan_.renew(Deadline::in(try_time(plan_.lease)));
        if (!beat) {
            next = std::min(BootClock::now() + pause_after_failure(plan_.lease), window.kill_at);
        } else if (*beat == Beat::lost) {
            lose();
            return;
        } else {
            window = trust_window(sent_at, plan_.lease);
            plan_.on_renewed(window);
            next = sent_at + plan_.lease / 3;
        }
    }
}

}  // namespace settle::engine
