#include "pg/url.hpp"

#include <libpq-fe.h>

#include <memory>
#include <string_view>

namespace settle::pg {
namespace {

// What stands between the first ':' of the authority and its last '@', where a password is meant to be.
std::string_view password_as_written(std::string_view url) {
    const std::size_t scheme = url.find("://");
    if (scheme == std::string_view::npos || !url.starts_with("postgres")) {
        return {};
    }
    url.remove_prefix(scheme + 3);
    url = url.substr(0, url.find('?'));
    const std::size_t at = url.rfind('@');
    const std::size_t colon = url.find(':');
    if (at == std::string_view::npos || colon == std::string_view::npos || colon > at) {
        return {};
    }
    return url.substr(colon + 1, at - colon - 1);
}

}  // namespace

Result<std::vector<std::string>> secrets_of(const std::string& url) {
    struct Free {
        void operator()(PQconninfoOption* options) const noexcept { PQconninfoFree(options); }
    };
    char* complaint = nullptr;
    const std::unique_ptr<PQconninfoOption, Free> options{PQconninfoParse(url.c_str(), &complaint)};
    PQfreemem(complaint);  // not shown: it quotes the text, password and all
    if (!options) {
        return invalid_argument("the database's URL", "it cannot be read; write postgresql://USER@HOST:PORT/NAME");
    }
    const std::string_view written = password_as_written(url);
    if (written.find_first_of("@/") != std::string_view::npos) {
        return invalid_argument("the database's URL", "write '@' in the password as %40 and '/' as %2F");
    }
    std::vector<std::string> secrets;
    if (!written.empty()) {
        secrets.emplace_back(written);
    }
    for (const PQconninfoOption* option = options.get(); option->keyword != nullptr; ++option) {
        const std::string_view kind{option->dispchar};
        if (kind == "*" && option->val != nullptr && *option->val != '\0') {
            secrets.emplace_back(option->val);
        }
    }
    return secrets;
}

}  // namespace settle::pg
