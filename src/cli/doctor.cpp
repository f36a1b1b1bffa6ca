// settle doctor: every setting and every invariant, and what to do where one does not hold.
#include <fmt/format.h>

#include <algorithm>

#include "base/limits.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/plain.hpp"
#include "store/doctor.hpp"

namespace settle::cli {
namespace {

constexpr auto look_wait = std::chrono::minutes{10};  // all operations are read

std::string document(const store::Finding& finding) {
    return fmt::format(R"({{"severity":{},"finding":{},"what_to_do":{},"detail":{}}})", json_string(finding.severity),
                       json_string(finding.finding), json_string(finding.what_to_do), finding.detail);
}

std::string count(std::ptrdiff_t number, std::string_view noun) {
    return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

// What is only worth knowing does not fail the examination.
int print_findings(const Context& context, const std::vector<store::Finding>& findings) {
    const auto notes = std::ranges::count(findings, "info", &store::Finding::severity);
    const auto real = static_cast<std::ptrdiff_t>(findings.size()) - notes;
    if (context.json) {
        std::vector<std::string> documents;
        documents.reserve(findings.size());
        for (const auto& finding : findings) {
            documents.push_back(document(finding));
        }
        print(safe_json(json_array(documents)));
        return real > 0 ? 1 : 0;
    }
    std::string text;
    for (const auto& finding : findings) {
        text += fmt::format("{:<8} {}\n         do: {}\n", finding.severity, printable(finding.finding),
                            printable(finding.what_to_do));
    }
    text += real > 0 ? count(real, "finding") : std::string{"no findings"};
    if (notes > 0) {
        text += ", " + count(notes, "note");
    }
    print(text);
    return real > 0 ? 1 : 0;
}

// A database that this program cannot use is what the examination was to find out.
int not_examined(const Context& context, const Error& error) {
    return error.code == Code::unsupported_schema ? print_findings(context, {store::unsupported(error)})
                                                  : report(context, error);
}

}  // namespace

int doctor_command(const Context& context) {
    auto url = database_url(context);
    if (!url) {
        return not_examined(context, url.error());
    }
    auto connection = pg::Connection::open(*url, Deadline::in(limits::connect_wait));
    if (!connection) {
        return not_examined(context, connection.error());
    }
    auto findings = store::doctor(*connection, Deadline::in(look_wait));
    return findings ? print_findings(context, *findings) : report(context, findings.error());
}

}  // namespace settle::cli
