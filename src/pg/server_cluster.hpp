// Making the private server's cluster.
#pragma once

#include <string>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "pg/server_files.hpp"

namespace settle::pg {

// Makes `data` with the database `settle` in it, whole or not at all: it is made beside its place and then renamed.
// The home must be locked.
Result<void> create_cluster(const ServerHome& home, const ServerUser& user, const std::string& binaries, int log,
                            Deadline deadline);

}  // namespace settle::pg
