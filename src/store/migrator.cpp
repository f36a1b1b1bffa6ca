#include "store/migrator.hpp"

#include <algorithm>
#include <charconv>
#include <map>

#include "store/sql_text.hpp"

namespace settle::store {

namespace {

int number_of(const sql::SqlFile& file) {
    int number = 0;
    std::from_chars(file.name.data(), file.name.data() + file.name.size(), number);
    return number;
}

int program_version() {
    return number_of(sql::schema_files.back());
}

using Applied = std::map<std::string, std::string>;  // file name to its SHA-256

Result<Applied> applied(pg::Connection& connection, std::string_view query, Deadline deadline) {
    auto rows = connection.query(query, {}, deadline);
    if (!rows) {
        return std::unexpected{rows.error()};
    }
    Applied files;
    for (int row = 0; row < rows->count(); ++row) {
        files.emplace(rows->require(row, "name"), rows->require(row, "sha256"));
    }
    return files;
}

bool is_applied(const Applied& files, const sql::SqlFile& file) {
    const auto found = files.find(std::string{file.name});
    return found != files.end() && found->second == file.sha256;
}

std::unexpected<Error> newer_schema(int version) {
    return fail(Code::unsupported_schema, "the database's schema is version " + std::to_string(version) +
                                              ", this program knows " + std::to_string(program_version()) +
                                              ": use a newer settle");
}

// The numbered files, in order; each is applied once and never again, whatever became of its text.
Result<int> apply_numbered(pg::Connection& connection, const Applied& done, Deadline deadline) {
    int count = 0;
    for (const auto& file : sql::schema_files) {
        const auto known = done.find(std::string{file.name});
        if (known != done.end()) {
            if (known->second != file.sha256) {
                return fail(Code::unsupported_schema,
                            "migration " + std::string{file.name} +
                                " of this database is not this program's: it was made by another build of settle");
            }
            continue;
        }
        if (auto ran = connection.script(file.text, deadline); !ran) {
            return std::unexpected{ran.error()};
        }
        ++count;
    }
    return count;
}

Result<void> record_numbered(pg::Connection& connection, const Applied& done, Deadline deadline) {
    for (const auto& file : sql::schema_files) {
        if (done.contains(std::string{file.name})) {
            continue;
        }
        auto recorded = connection.query(
            sql::record_migration, {std::to_string(number_of(file)), std::string{file.name}, std::string{file.sha256}},
            deadline);
        if (!recorded) {
            return std::unexpected{recorded.error()};
        }
    }
    return {};
}

// All files of the API where any has changed: a function may rest on one of another file.
Result<int> renew_api(pg::Connection& connection, Deadline deadline) {
    const auto done = applied(connection, sql::api_applied, deadline);
    if (!done) {
        return std::unexpected{done.error()};
    }
    const auto changed =
        std::ranges::count_if(sql::api_files, [&](const auto& file) { return !is_applied(*done, file); });
    if (changed == 0) {
        return 0;
    }
    for (const auto& file : sql::api_files) {
        if (auto ran = connection.script(file.text, deadline); !ran) {
            return std::unexpected{ran.error()};
        }
        auto recorded =
            connection.query(sql::record_api_file, {std::string{file.name}, std::string{file.sha256}}, deadline);
        if (!recorded) {
            return std::unexpected{recorded.error()};
        }
    }
    return static_cast<int>(changed);
}

// What is applied now; empty where there is no schema yet.
Result<Applied> numbered_now(pg::Connection& connection, Deadline deadline) {
    const auto state = connection.query(sql::migration_state, {}, deadline);
    if (!state) {
        return std::unexpected{state.error()};
    }
    if (!state->boolean(0, "present")) {
        return Applied{};
    }
    return applied(connection, sql::migrations_applied, deadline);
}

Result<MigrationReport> migrate_here(pg::Connection& connection, Deadline deadline) {
    if (auto locked = connection.query(sql::migration_lock, {}, deadline); !locked) {
        return std::unexpected{locked.error()};
    }
    const auto before = numbered_now(connection, deadline);
    if (!before) {
        return std::unexpected{before.error()};
    }
    if (before->size() > sql::schema_files.size()) {
        return newer_schema(static_cast<int>(before->size()));
    }
    if (!before->empty()) {
        if (auto owner = connection.script(sql::become_owner, deadline); !owner) {
            return std::unexpected{owner.error()};
        }
    }
    MigrationReport report;
    const auto count = apply_numbered(connection, *before, deadline);
    if (!count) {
        return std::unexpected{count.error()};
    }
    if (auto recorded = record_numbered(connection, *before, deadline); !recorded) {
        return std::unexpected{recorded.error()};
    }
    const auto renewed = renew_api(connection, deadline);
    if (!renewed) {
        return std::unexpected{renewed.error()};
    }
    report.applied = *count;
    report.functions_renewed = *renewed;
    report.version = program_version();
    return report;
}

// A recording statement with its parameters written in; all of them are names and hashes of our own files.
std::string with_values(std::string_view statement, const std::vector<std::string>& values) {
    std::string text{statement};
    for (std::size_t i = values.size(); i > 0; --i) {
        const std::string parameter = "$" + std::to_string(i) + "::";
        text.replace(text.find(parameter), parameter.size(), "'" + values[i - 1] + "'::");
    }
    return text + ";\n";
}

}  // namespace

std::string migration_script() {
    std::string script = "\\set ON_ERROR_STOP on\nbegin;\n" + std::string{sql::migration_lock} + ";\n";
    for (const auto& file : sql::schema_files) {
        script += file.text;
    }
    for (const auto& file : sql::schema_files) {
        script += with_values(sql::record_migration,
                              {std::to_string(number_of(file)), std::string{file.name}, std::string{file.sha256}});
    }
    for (const auto& file : sql::api_files) {
        script += file.text;
        script += with_values(sql::record_api_file, {std::string{file.name}, std::string{file.sha256}});
    }
    return script + "commit;\n";
}

Result<MigrationReport> migrate(pg::Connection& connection, Deadline deadline) {
    return pg::in_transaction(connection, deadline, [&](pg::Connection& here) { return migrate_here(here, deadline); });
}

Result<void> check_schema(pg::Connection& connection, Deadline deadline) {
    const auto rows = connection.query(sql::schema_version, {}, deadline);
    if (!rows) {
        return std::unexpected{rows.error()};
    }
    const auto version = rows->integer(0, "version").value_or(0);
    if (version > program_version()) {
        return newer_schema(static_cast<int>(version));
    }
    if (version < program_version()) {
        return fail(Code::unsupported_schema, "the database's schema is version " + std::to_string(version) +
                                                  ", this program needs " + std::to_string(program_version()) +
                                                  ": run settle migrate");
    }
    return {};
}

Result<bool> is_current(pg::Connection& connection, Deadline deadline) {
    const auto numbered = numbered_now(connection, deadline);
    if (!numbered) {
        return std::unexpected{numbered.error()};
    }
    if (numbered->size() != sql::schema_files.size()) {
        return false;
    }
    const auto api = applied(connection, sql::api_applied, deadline);
    if (!api) {
        return std::unexpected{api.error()};
    }
    return std::ranges::all_of(sql::api_files, [&](const auto& file) { return is_applied(*api, file); });
}

}  // namespace settle::store
