// settle lab init | verify: the laboratory, a small bank on which Settle's promises are tried.
#include <fmt/format.h>

#include "base/limits.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/lab_verify.hpp"
#include "store/migrator.hpp"
#include "store/sql_text.hpp"

namespace settle::cli {
namespace {

namespace sql = store::sql;

// Leaves room for a number behind it.
constexpr std::size_t namespace_stem_bytes = limits::name_bytes - std::string_view{"-9999"}.size();

Deadline soon() {
    return Deadline::in(limits::statement_wait);
}

Result<void> check_schema_name(const std::string& schema) {
    const auto invalid = [&](std::string_view why) {
        return invalid_argument("schema", fmt::format("{} {}", printable(schema), why));
    };
    if (schema.empty() || schema.size() > limits::name_bytes) {
        return invalid_argument("schema", fmt::format("a name has 1 to {} bytes", limits::name_bytes));
    }
    if (printable(schema) != schema || schema.starts_with(' ') || schema.ends_with(' ')) {
        return invalid("has characters that no name should have");
    }
    if (schema.starts_with("pg_") || schema == "information_schema" || schema == "settle" || schema == "settle_data") {
        return invalid("is not free for a laboratory: name another schema");
    }
    return {};
}

std::string namespace_stem(const Context& context, const std::string& schema, bool given) {
    std::string stem = given ? context.name_space : "lab-" + schema;
    if (!given && stem.size() > namespace_stem_bytes) {
        std::size_t end = namespace_stem_bytes;
        while ((static_cast<unsigned char>(stem[end]) & 0xC0U) == 0x80U) {
            --end;  // not inside a character
        }
        stem.resize(end);
        stem.erase(stem.find_last_not_of(' ') + 1);
    }
    return stem;
}

Result<void> check_empty(pg::Connection& connection, const std::string& schema) {
    const auto rows = connection.query(sql::lab_occupants, {schema}, soon());
    if (!rows) {
        return std::unexpected{rows.error()};
    }
    const auto count = rows->integer(0, "objects").value_or(0);
    if (count == 0) {
        return {};
    }
    return invalid_argument(
        "schema", fmt::format("{} is not empty ({}{}): name an empty or a new one with --schema", schema,
                              rows->require(0, "example"), count > 1 ? fmt::format(" and {} more", count - 1) : ""));
}

// In the caller's transaction. The laboratory's namespace.
Result<std::string> make_laboratory(pg::Connection& connection, const Context& context, const std::string& schema) {
    if (auto alone = connection.query(sql::lab_prepare, {schema}, soon()); !alone) {
        return std::unexpected{alone.error()};
    }
    if (auto empty = check_empty(connection, schema); !empty) {
        return std::unexpected{empty.error()};
    }
    for (const auto& file : sql::lab_files) {
        if (auto made = connection.script(file.text, soon()); !made) {
            return std::unexpected{made.error()};
        }
    }
    const bool given = context.name_space != "default";
    const std::string stem = namespace_stem(context, schema, given);
    const auto claimed = connection.query(sql::lab_claim_namespace, {stem, given ? "true" : "false"}, soon());
    if (!claimed) {
        return std::unexpected{claimed.error()};
    }
    if (claimed->count() == 0) {
        return invalid_argument("namespace",
                                fmt::format("{} already has operations or leases: name a fresh one", stem));
    }
    return claimed->require(0, "namespace");
}

Result<std::string> init(const Context& context, const std::string& schema) {
    auto connection =
        context.db ? pg::Connection::open(*context.db, Deadline::in(limits::connect_wait)) : connect(context);
    if (!connection) {
        return std::unexpected{connection.error()};
    }
    // Looked at before the migration, too: where no laboratory can be made, the database stays as it was.
    if (auto empty = check_empty(*connection, schema); !empty) {
        return std::unexpected{empty.error()};
    }
    if (auto migrated = store::migrate(*connection, soon()); !migrated) {
        return std::unexpected{migrated.error()};
    }
    return pg::in_transaction(*connection, soon(),
                              [&](pg::Connection& here) { return make_laboratory(here, context, schema); });
}

}  // namespace

int lab_command(const Context& context, const LabOptions& options) {
    if (auto good = check_schema_name(options.schema); !good) {
        return report(context, good.error());
    }
    if (options.action == "verify") {
        return verify_laboratory(context, options.schema);
    }
    if (options.action != "init") {
        return report(context, invalid_argument("lab", "the action is init or verify").error());
    }
    const auto name_space = init(context, options.schema);
    if (!name_space) {
        return report(context, name_space.error());
    }
    print(context.json ? fmt::format(R"({{"schema":{},"namespace":{},"account":1,"balance":1000}})",
                                     json_string(options.schema), json_string(*name_space))
                       : fmt::format("the laboratory is ready in schema {}: account 1 has 1000, Settle's namespace is "
                                     "{}; now `settle lab verify{}`",
                                     options.schema, *name_space,
                                     options.schema == "public" ? "" : " --schema " + options.schema));
    return 0;
}

}  // namespace settle::cli
