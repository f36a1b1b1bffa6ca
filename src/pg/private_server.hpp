// The PostgreSQL that Settle brings up for itself when no database is named: a cluster of its own under SETTLE_HOME,
// reached by a Unix socket alone, with full durability.
#pragma once

#include <string>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace settle::pg {

struct ServerState {
    bool initialised = false;
    bool running = false;
    int pid = 0;          // of the postmaster, where running
    std::string version;  // major version of the cluster, "15"
    std::string data_directory;
    std::string log_file;
    std::string url;  // postgresql:///settle?host=…&port=5432&user=settle
};

class PrivateServer {
public:
    // SETTLE_HOME or its default; `up` makes it where it is missing.
    static Result<PrivateServer> at_home();

    // Makes the cluster where there is none, starts it where it does not run, waits until it answers, and returns its
    // URL. Safe for many processes at once: one starts, the others wait. A dead server's leftovers are cleared.
    Result<std::string> up(Deadline deadline);
    // Fast shutdown; nothing to do is no error.
    Result<void> down(Deadline deadline);
    [[nodiscard]] Result<ServerState> status() const;
    [[nodiscard]] std::string url() const;

private:
    explicit PrivateServer(std::string home) : home_(std::move(home)) {}
    std::string home_;
};

}  // namespace settle::pg
