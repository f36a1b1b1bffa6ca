// Which PostgreSQL the private server runs.
#pragma once

#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "pg/server_files.hpp"

namespace settle::pg {

inline constexpr int server_major_min = 15;

// The major version of the cluster, from its PG_VERSION; nothing where there is no cluster yet.
Result<std::optional<int>> cluster_major(const ServerHome& home);

// The directory of `postgres` and `initdb`: SETTLE_PG_BIN where set, else Debian's for the cluster's version, else the
// highest installed.
Result<std::string> find_binaries(const ServerHome& home, const ServerUser& user, Deadline deadline);

}  // namespace settle::pg
