#include "engine/heartbeat.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <future>

namespace settle::engine {
namespace {

using namespace std::chrono_literals;

constexpr auto soon = 20s;

Error unreachable() {
    return Error{.code = Code::database_unreachable, .message = "gone", .sqlstate = {}, .detail = {}};
}

// A lease whose renewals answer what a test says, and who sees what the heartbeat does.
class Lease {
public:
    explicit Lease(std::deque<Result<Beat>> answers) : answers_(std::move(answers)) {}

    HeartbeatPlan plan(std::chrono::milliseconds lease) {
        return HeartbeatPlan{.lease = lease,
                             .granted_at = BootClock::now(),
                             .renew = [this](Deadline) { return answer(); },
                             .on_renewed = [this](const TrustWindow& window) { renewed(window); },
                             .on_lost = [this] { change([this] { ++losses_; }); }};
    }

    bool wait(const std::function<bool()>& condition) {
        std::unique_lock lock{mutex_};
        return changed_.wait_for(lock, soon, condition);
    }

    int tries_ = 0;
    int losses_ = 0;
    std::vector<TrustWindow> windows_;

private:
    void change(const std::function<void()>& what) {
        const std::lock_guard lock{mutex_};
        what();
        changed_.notify_all();
    }
    void renewed(const TrustWindow& window) {
        change([&] { windows_.push_back(window); });
    }
    Result<Beat> answer() {
        Result<Beat> next = Beat::renewed;
        change([&] {
            ++tries_;
            if (answers_.size() > 1) {
                next = answers_.front();
                answers_.pop_front();
            } else {
                next = answers_.front();  // the last answer goes on
            }
        });
        return next;
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Result<Beat>> answers_;
};

TEST(TrustWindow, EndsBeforeTheLease) {
    for (const std::chrono::milliseconds lease : {1000ms, 2000ms, 30'000ms, 3'600'000ms}) {
        const auto sent_at = BootClock::now();
        const TrustWindow window = trust_window(sent_at, lease);
        EXPECT_LT(window.kill_at, sent_at + lease);
        EXPECT_LT(window.stop_at, window.kill_at);
        // Two renewals fit before the work is asked to stop.
        EXPECT_GT(window.stop_at, sent_at + 2 * lease / 3) << lease.count();
    }
}

TEST(Heartbeat, RenewsAtAThirdOfTheLeaseAndMovesTheWindow) {
    Lease lease{{Beat::renewed}};
    const auto started_at = BootClock::now();
    {
        Heartbeat heartbeat{lease.plan(300ms)};
        ASSERT_TRUE(lease.wait([&] { return lease.windows_.size() >= 3; }));
        EXPECT_FALSE(heartbeat.lost());
    }
    EXPECT_GE(BootClock::now() - started_at, 300ms);
    EXPECT_EQ(lease.losses_, 0);
    EXPECT_LT(lease.windows_[0].stop_at, lease.windows_[1].stop_at);
    EXPECT_LT(lease.windows_[1].stop_at, lease.windows_[2].stop_at);
    // Counted from before the renewal was sent, the first one a third into the lease.
    EXPECT_GE(lease.windows_[0].kill_at, trust_window(started_at + 100ms, 300ms).kill_at);
}

TEST(Heartbeat, ARefusedRenewalIsALossAtOnce) {
    Lease lease{{Beat::renewed, Beat::lost}};
    Heartbeat heartbeat{lease.plan(300ms)};
    ASSERT_TRUE(lease.wait([&] { return lease.losses_ == 1; }));
    EXPECT_TRUE(heartbeat.lost());
    EXPECT_EQ(lease.tries_, 2);
}

TEST(Heartbeat, AnUnreachableDatabaseIsTriedAgain) {
    Lease lease{{std::unexpected{unreachable()}, std::unexpected{unreachable()}, Beat::renewed}};
    Heartbeat heartbeat{lease.plan(3000ms)};
    ASSERT_TRUE(lease.wait([&] { return !lease.windows_.empty(); }));
    EXPECT_FALSE(heartbeat.lost());
    EXPECT_EQ(lease.tries_, 3);
}

TEST(Heartbeat, TheEndOfTheWindowIsALoss) {
    Lease lease{{std::unexpected{unreachable()}}};
    const auto granted_at = BootClock::now();
    Heartbeat heartbeat{lease.plan(1000ms)};
    ASSERT_TRUE(lease.wait([&] { return lease.losses_ == 1; }));
    EXPECT_TRUE(heartbeat.lost());
    EXPECT_GE(lease.tries_, 2);
    EXPECT_GE(BootClock::now(), trust_window(granted_at, 1000ms).kill_at);
}

TEST(Heartbeat, EndsAtOnceWhenItIsNotNeededAnyMore) {
    Lease lease{{Beat::renewed}};
    const auto started_at = BootClock::now();
    {
        const Heartbeat heartbeat{lease.plan(std::chrono::hours{10})};
    }
    EXPECT_LT(BootClock::now() - started_at, soon);
    EXPECT_EQ(lease.tries_, 0);
}

}  // namespace
}  // namespace settle::engine
