// Brings a database's schema to this program's version, and says which version a database has.
#pragma once

#include <string>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "pg/connection.hpp"

namespace settle::store {

// The SQL that `migrate` runs on an empty database: one transaction, fit for psql.
std::string migration_script();

struct MigrationReport {
    int applied = 0;            // numbered migrations
    int functions_renewed = 0;  // files of sql/api whose text had changed
    int version = 0;            // of the schema now
};

// Idempotent, in one transaction under an advisory lock: many at once on one database, or on two databases of one
// cluster, are safe. A schema newer than this program is `unsupported_schema`, and nothing changes.
Result<MigrationReport> migrate(pg::Connection& connection, Deadline deadline);

// The handshake: fails with `unsupported_schema` where the database has no schema, an older one (saying `settle
// migrate`), or a newer one.
Result<void> check_schema(pg::Connection& connection, Deadline deadline);

// Whether nothing is left to do for `migrate`, the text of the functions included. Reads Settle's own tables, so it
// needs the rights of their owner: for the private server.
Result<bool> is_current(pg::Connection& connection, Deadline deadline);

}  // namespace settle::store
