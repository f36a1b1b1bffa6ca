#include "cli/reconnecting.hpp"

#include <algorithm>
#include <array>

namespace settle::cli {

bool is_passing(const Error& error) {
    if (error.code == Code::database_unreachable) {
        return true;
    }
    // Serialization failure, deadlock, lock not available, read-only (a failover is under way), shutting down and
    // starting up, and class 53: out of connections, memory, disk.
    constexpr std::array<std::string_view, 8> passing{"40001", "40P01", "55P03", "25006",
                                                      "57P01", "57P02", "57P03", "57014"};
    return error.sqlstate.starts_with("53") || std::ranges::find(passing, error.sqlstate) != passing.end();
}

Result<pg::Connection*> Reconnecting::get(Deadline deadline) {
    if (!connection_ || !connection_->is_open()) {
        connection_.reset();
        auto made = connect(context_, deadline);
        if (!made) {
            return std::unexpected{made.error()};
        }
        connection_ = std::move(*made);
    }
    return &*connection_;
}

std::chrono::milliseconds Backoff::next() {
    return std::exchange(next_, std::min(next_ * 2, std::chrono::milliseconds{2000}));
}

}  // namespace settle::cli
