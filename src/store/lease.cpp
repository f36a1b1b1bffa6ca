#include "store/lease.hpp"

#include <vector>

#include "store/sql_text.hpp"

namespace settle::store {

namespace {

Result<LeaseAnswer> ask(pg::Connection& connection, std::string_view statement, const std::vector<pg::Param>& params,
                        Deadline deadline) {
    const auto rows = connection.query(statement, params, deadline);
    if (!rows) {
        return std::unexpected{rows.error()};
    }
    LeaseAnswer answer;
    answer.outcome = rows->require(0, "outcome");
    answer.token = rows->integer(0, "token");
    answer.holder = rows->text(0, "holder");
    answer.lease_until = rows->text(0, "lease_until");
    return answer;
}

}  // namespace

Result<LeaseAnswer> acquire_lease(pg::Connection& connection, const ResourceName& name, const std::string& holder,
                                  std::chrono::milliseconds ttl, Deadline deadline) {
    return ask(connection, sql::acquire_lease,
               {name.resource, holder, std::to_string(ttl.count()) + " milliseconds", name.name_space}, deadline);
}

Result<LeaseAnswer> renew_lease(pg::Connection& connection, const ResourceName& name, const std::string& holder,
                                std::int64_t token, std::chrono::milliseconds ttl, Deadline deadline) {
    return ask(
        connection, sql::renew_lease,
        {name.resource, holder, std::to_string(token), std::to_string(ttl.count()) + " milliseconds", name.name_space},
        deadline);
}

Result<LeaseAnswer> release_lease(pg::Connection& connection, const ResourceName& name, const std::string& holder,
                                  std::int64_t token, Deadline deadline) {
    return ask(connection, sql::release_lease, {name.resource, holder, std::to_string(token), name.name_space},
               deadline);
}

}  // namespace settle::store
