// Typed calls of the lease functions. A resource's token only grows; its row is never removed.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "pg/connection.hpp"

namespace settle::store {

struct LeaseAnswer {
    std::string outcome;  // granted | held | renewed | released | lost
    std::optional<std::int64_t> token;
    std::optional<std::string> holder;
    std::optional<std::string> lease_until;
};

struct ResourceName {
    std::string name_space = "default";
    std::string resource;
};

Result<LeaseAnswer> acquire_lease(pg::Connection& connection, const ResourceName& name, const std::string& holder,
                                  std::chrono::milliseconds ttl, Deadline deadline);
Result<LeaseAnswer> renew_lease(pg::Connection& connection, const ResourceName& name, const std::string& holder,
                                std::int64_t token, std::chrono::milliseconds ttl, Deadline deadline);
Result<LeaseAnswer> release_lease(pg::Connection& connection, const ResourceName& name, const std::string& holder,
                                  std::int64_t token, Deadline deadline);

}  // namespace settle::store
