#include "store/doctor.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <string_view>

#include "store/migrator.hpp"
#include "store/sql_text.hpp"

namespace settle::store {

namespace {

constexpr std::int64_t clock_tolerance_ms = 5000;
constexpr std::string_view old_transaction = "5 minutes";

std::string texts_of(std::span<const sql::SqlFile> files) {
    std::string text;
    for (const auto& file : files) {
        text += file.text;
    }
    return text;
}

std::string check_detail(std::string_view check) {
    return R"({"check" : ")" + std::string{check} + R"("})";
}

// What the checks have found so far, and which of them this role may not run.
class Doctor {
public:
    Doctor(pg::Connection& connection, Deadline deadline) : connection_(connection), deadline_(deadline) {}

    Result<void> ask(std::string_view what, std::string_view statement, const std::vector<pg::Param>& params = {}) {
        const auto rows = connection_.query(statement, params, deadline_);
        if (!rows) {
            return forbidden(what, rows.error());
        }
        for (int row = 0; row < rows->count(); ++row) {
            findings_.push_back({.severity = rows->require(row, "severity"),
                                 .finding = rows->require(row, "finding"),
                                 .what_to_do = rows->require(row, "what_to_do"),
                                 .detail = rows->require(row, "detail")});
        }
        return {};
    }

    // Whether the functions in the database are this program's by the record that `migrate` keeps; where that may not
    // be read, the texts themselves are all there is to compare.
    Result<bool> functions_are_current() {
        const auto differing = differing_files(sql::api_files, sql::api_applied, "the version of the functions");
        if (!differing) {
            return std::unexpected{differing.error()};
        }
        if (!differing->empty()) {
            add("error", "the functions in the database are of another version than this program: " + *differing,
                "run settle migrate", "functions");
        }
        return differing->empty();
    }

    Result<void> look_at_migrations() {
        const auto differing = differing_files(sql::schema_files, sql::migrations_applied, "the migrations");
        if (!differing) {
            return std::unexpected{differing.error()};
        }
        if (!differing->empty()) {
            add("error", "the tables in the database were made by another build than this program: " + *differing,
                "use the program that made them", "schema");
        }
        return {};
    }

    Result<void> look_at_clock() {
        const auto wall_ms = [] {
            return std::chrono::duration_cast<std::chrono::milliseconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                .count();
        };
        ClockReading reading{.before_ms = wall_ms()};
        const auto rows = connection_.query(sql::doctor_clock, {}, deadline_);
        reading.after_ms = wall_ms();
        if (!rows) {
            return std::unexpected{rows.error()};
        }
        reading.database_ms = rows->integer(0, "now_ms").value_or(0);
        if (auto finding = clock_difference(reading)) {
            findings_.push_back(*std::move(finding));
        }
        return {};
    }

    void add(std::string severity, std::string finding, std::string what_to_do, std::string_view check) {
        findings_.push_back({.severity = std::move(severity),
                             .finding = std::move(finding),
                             .what_to_do = std::move(what_to_do),
                             .detail = check_detail(check)});
    }
    void add(Finding finding) { findings_.push_back(std::move(finding)); }

    std::vector<Finding> all() && {
        if (!unchecked_.empty()) {
            add("info", "not checked, as this role may not read what is needed: " + unchecked_,
                "run settle doctor as a member of settle_owner", "rights");
        }
        // The worst first; among equals, in the order of the checks.
        std::vector<Finding> sorted;
        sorted.reserve(findings_.size());
        for (const std::string_view severity : {"error", "warning", "info"}) {
            std::ranges::copy_if(findings_, std::back_inserter(sorted),
                                 [&](const Finding& finding) { return finding.severity == severity; });
        }
        return sorted;
    }

private:
    // Names of files whose text is not the one that the database has a record of; none where that may not be read.
    Result<std::string> differing_files(std::span<const sql::SqlFile> files, std::string_view record,
                                        std::string_view what) {
        const auto rows = connection_.query(record, {}, deadline_);
        if (!rows) {
            if (auto allowed = forbidden(what, rows.error()); !allowed) {
                return std::unexpected{allowed.error()};
            }
            return std::string{};
        }
        std::map<std::string, std::string> applied;
        for (int row = 0; row < rows->count(); ++row) {
            applied.emplace(rows->require(row, "name"), rows->require(row, "sha256"));
        }
        std::string differing;
        for (const auto& file : files) {
            const auto found = applied.find(std::string{file.name});
            if (found == applied.end() || found->second != file.sha256) {
                differing += (differing.empty() ? "" : ", ") + std::string{file.name};
            }
        }
        return differing;
    }

    Result<void> forbidden(std::string_view what, const Error& error) {
        if (error.code != Code::permission_denied) {
            return std::unexpected{error};
        }
        unchecked_ += (unchecked_.empty() ? "" : ", ") + std::string{what};
        return {};
    }

    pg::Connection& connection_;
    Deadline deadline_;
    std::vector<Finding> findings_;
    std::string unchecked_;
};

Result<void> look_at_server(Doctor& doctor) {
    if (auto asked = doctor.ask("the server's settings", sql::doctor_settings); !asked) {
        return asked;
    }
    if (auto asked = doctor.ask("old transactions", sql::doctor_sessions, {std::string{old_transaction}}); !asked) {
        return asked;
    }
    return doctor.look_at_clock();
}

Result<void> look_at_schema(Doctor& doctor) {
    if (auto looked = doctor.look_at_migrations(); !looked) {
        return looked;
    }
    const auto current = doctor.functions_are_current();
    if (!current) {
        return std::unexpected{current.error()};
    }
    const std::string api = texts_of(sql::api_files);
    struct Check {
        std::string_view what;
        std::string_view statement;
        std::vector<pg::Param> params;
    };
    const std::vector<Check> checks{
        {"the roles", sql::doctor_roles, {}},
        {"the functions", sql::doctor_functions, {api, *current ? "true" : "false"}},
        {"the tables and views", sql::doctor_relations, {texts_of(sql::schema_files) + api}},
        {"the grants", sql::doctor_grants, {api}},
        {"the operations", sql::doctor_operations, {}},
        {"the executions", sql::doctor_executions, {}},
        {"the compensations", sql::doctor_compensations, {}},
        {"the kinds", sql::doctor_kinds, {}},
        {"what waits", sql::doctor_backlog, {}},
        {"the callers' settings", sql::doctor_callers, {}},
    };
    for (const Check& check : checks) {
        if (auto asked = doctor.ask(check.what, check.statement, check.params); !asked) {
            return asked;
        }
    }
    return {};
}

}  // namespace

Finding unsupported(const Error& error) {
    // Its messages end in what to do.
    const std::string& message = error.message;
    const auto mark = std::max(message.rfind(": ") + 1, message.rfind("; ") + 1);
    const std::size_t end = mark == 0 ? message.size() : mark - 1;
    return {.severity = "error",
            .finding = message.substr(0, end),
            .what_to_do = end == message.size() ? "use another database" : message.substr(end + 2),
            .detail = check_detail("schema")};
}

std::optional<Finding> clock_difference(const ClockReading& reading) {
    // The database looked at its clock at some moment between the two of ours.
    const std::int64_t ahead_ms = reading.database_ms - reading.after_ms;
    const std::int64_t behind_ms = reading.before_ms - reading.database_ms;
    const std::int64_t off_ms = std::max(ahead_ms, behind_ms);
    if (off_ms <= clock_tolerance_ms) {
        return std::nullopt;
    }
    return Finding{.severity = "info",
                   .finding = "the database's clock is " + std::to_string(off_ms / 1000) + " s " +
                              (ahead_ms > behind_ms ? "ahead of" : "behind") + " this machine's",
                   .what_to_do = "nothing depends on it, as the database's clock decides; set both by NTP",
                   .detail = R"({"check" : "clock", "difference_ms" : )" +
                             std::to_string(ahead_ms > behind_ms ? off_ms : -off_ms) + "}"};
}

Result<std::vector<Finding>> doctor(pg::Connection& connection, Deadline deadline) {
    Doctor doctor{connection, deadline};
    const auto schema = check_schema(connection, deadline);
    if (!schema && schema.error().code != Code::unsupported_schema) {
        return std::unexpected{schema.error()};
    }
    if (!schema) {
        doctor.add(unsupported(schema.error()));
    } else if (auto looked = look_at_schema(doctor); !looked) {
        return std::unexpected{looked.error()};
    }
    if (auto looked = look_at_server(doctor); !looked) {
        return std::unexpected{looked.error()};
    }
    return std::move(doctor).all();
}

}  // namespace settle::store
