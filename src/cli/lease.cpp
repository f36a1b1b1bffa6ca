// settle lease acquire | renew | release | show: leases for people and scripts.
#include <fmt/format.h>

#include <charconv>

#include "base/limits.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/lease_hold.hpp"
#include "cli/plain.hpp"
#include "cli/wording.hpp"
#include "store/lease.hpp"
#include "store/sql_text.hpp"

namespace settle::cli {
namespace {

struct Wanted {
    store::ResourceName name;
    std::chrono::milliseconds ttl{};
    std::int64_t token = 0;
};

Result<std::int64_t> parse_token(const std::optional<std::string>& text) {
    if (!text) {
        return invalid_argument("--token", "is required: the number that `settle lease acquire` printed");
    }
    std::int64_t token = 0;
    const char* end = text->data() + text->size();
    const auto [stopped, error] = std::from_chars(text->data(), end, token);
    if (error != std::errc{} || stopped != end || token < 1) {
        return invalid_argument("--token", fmt::format("\"{}\" is no token; it is a whole number from 1", *text));
    }
    return token;
}

Result<Wanted> checked(const Context& context, const LeaseOptions& options) {
    Wanted wanted{.name = {.name_space = context.name_space, .resource = options.resource}};
    if (options.resource.empty()) {
        return invalid_argument("resource", "is empty; name what the lease is for");
    }
    if (options.holder.empty() && options.action != "show") {
        return invalid_argument("--holder", "is required: a name that no other holder has");
    }
    if (options.action == "acquire" || options.action == "renew") {
        const auto ttl = parse_duration("--ttl", options.ttl);
        if (!ttl) {
            return std::unexpected{ttl.error()};
        }
        wanted.ttl = *ttl;
    }
    if (options.action == "renew" || options.action == "release") {
        const auto token = parse_token(options.token);
        if (!token) {
            return std::unexpected{token.error()};
        }
        wanted.token = *token;
    }
    return wanted;
}

void print_document(const Context& context, const LeaseOptions& options, const store::LeaseAnswer& answer) {
    const auto until = answer.lease_until ? std::optional{rfc3339(*answer.lease_until)} : std::nullopt;
    print(safe_json(
        fmt::format(R"({{"outcome":{},"namespace":{},"resource":{},"token":{},"holder":{},"lease_until":{}}})",
                    json_string(answer.outcome), json_string(context.name_space), json_string(options.resource),
                    json_or_null(answer.token), json_or_null(answer.holder), json_or_null(until))));
}

std::string whose_it_is(const store::LeaseAnswer& answer) {
    if (!answer.holder) {
        return "another is taking it right now";
    }
    return fmt::format("{} holds it under token {}{}", *answer.holder, answer.token.value_or(0),
                       answer.lease_until ? fmt::format(" until {}", rfc3339(*answer.lease_until)) : "");
}

int say_lost(const LeaseOptions& options, const store::LeaseAnswer& answer) {
    warn(fmt::format("{}: {}: this lease is lost; {}", info(Code::stale_token).name, options.resource,
                     answer.token ? "its last grant was: " + whose_it_is(answer) : "it was never granted"));
    return info(Code::stale_token).exit_status;
}

int say(const Context& context, const LeaseOptions& options, const store::LeaseAnswer& answer) {
    if (context.json) {
        print_document(context, options, answer);
    }
    if (answer.outcome == "lost") {
        return say_lost(options, answer);
    }
    if (answer.outcome == "held") {
        warn(fmt::format("{} is not free: {}", options.resource, whose_it_is(answer)));
        return 1;
    }
    if (context.json) {
        return 0;
    }
    if (answer.outcome == "granted") {
        print(std::to_string(answer.token.value_or(0)));
    } else if (answer.outcome == "renewed") {
        print(fmt::format("renewed until {}", rfc3339(answer.lease_until.value_or(""))));
    } else {
        print("released");
    }
    return 0;
}

std::string show_line(const pg::Rows& rows, const std::string& resource) {
    const std::string token = rows.require(0, "token");
    const std::string holder = printable(rows.text(0, "holder").value_or("nobody"));
    const std::string state = rows.require(0, "state");
    if (state == "live") {
        return fmt::format("{}: held by {} under token {} until {}", printable(resource), holder, token,
                           rows.require(0, "lease_until"));
    }
    return fmt::format("{}: free; last held by {} under token {}, {} at {}", printable(resource), holder, token, state,
                       state == "released" ? rows.require(0, "released_at") : rows.require(0, "lease_until"));
}

int show(const Context& context, const LeaseOptions& options, pg::Connection& connection) {
    const auto rows = connection.query(store::sql::lease_show, {context.name_space, options.resource},
                                       Deadline::in(limits::statement_wait));
    if (!rows) {
        return report(context, rows.error());
    }
    if (rows->count() == 0) {
        return report(context, fail(Code::not_found, fmt::format("no lease on {} was ever granted in namespace {}",
                                                                 options.resource, context.name_space))
                                   .error());
    }
    if (!context.json) {
        print(show_line(*rows, options.resource));
        return 0;
    }
    print(safe_json(fmt::format(
        R"({{"namespace":{},"resource":{},"token":{},"holder":{},"lease_until":{},"state":{},"granted_at":{},)"
        R"("released_at":{}}})",
        json_string(context.name_space), json_string(options.resource), rows->require(0, "token"),
        json_or_null(rows->text(0, "holder")), json_or_null(rows->text(0, "lease_until")),
        json_string(rows->require(0, "state")), json_or_null(rows->text(0, "granted_at")),
        json_or_null(rows->text(0, "released_at")))));
    return 0;
}

Result<store::LeaseAnswer> act(const LeaseOptions& options, const Wanted& wanted, pg::Connection& connection) {
    const Deadline deadline = Deadline::in(limits::statement_wait);
    if (options.action == "acquire") {
        return store::acquire_lease(connection, wanted.name, options.holder, wanted.ttl, deadline);
    }
    if (options.action == "renew") {
        return store::renew_lease(connection, wanted.name, options.holder, wanted.token, wanted.ttl, deadline);
    }
    return store::release_lease(connection, wanted.name, options.holder, wanted.token, deadline);
}

}  // namespace

int lease_command(const Context& context, const LeaseOptions& options) {
    if (options.action == "hold") {
        return hold_command(context, options);
    }
    const auto wanted = checked(context, options);
    if (!wanted) {
        return report(context, wanted.error());
    }
    auto connection = connect(context);
    if (!connection) {
        return report(context, connection.error());
    }
    if (options.action == "show") {
        return show(context, options, *connection);
    }
    const auto answer = act(options, *wanted, *connection);
    return answer ? say(context, options, *answer) : report(context, answer.error());
}

}  // namespace settle::cli
