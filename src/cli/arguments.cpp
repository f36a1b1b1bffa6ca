#include "cli/arguments.hpp"

#include <algorithm>
#include <string_view>

#include "base/text.hpp"

namespace settle::cli {
namespace {

// The words that are neither options nor the values of those that may stand before the command.
std::vector<std::string_view> words_before(const Arguments& arguments, Arguments::const_iterator end) {
    std::vector<std::string_view> words;
    for (auto word = arguments.begin(); word != end; ++word) {
        if (*word == "--db" || *word == "--namespace") {
            word += word + 1 != end ? 1 : 0;
        } else if (!word->starts_with('-')) {
            words.emplace_back(*word);
        }
    }
    return words;
}

}  // namespace

Arguments split_command(Arguments& arguments) {
    const auto mark = std::find(arguments.begin(), arguments.end(), "--");
    if (mark == arguments.end()) {
        return {};
    }
    const auto words = words_before(arguments, mark);
    const bool holds = !words.empty() && words.front() == "lease" && std::ranges::find(words, "hold") != words.end();
    if (words.empty() || (words.front() != "exec" && !holds)) {
        return {};
    }
    Arguments own(mark + 1, arguments.end());
    arguments.erase(mark, arguments.end());
    return own;
}

Arguments with_empty_values(const Arguments& arguments) {
    Arguments result;
    bool options_ended = false;
    for (const std::string& word : arguments) {
        options_ended = options_ended || word == "--";
        if (!options_ended && word.starts_with("--") && word.size() > 3 && word.find('=') == word.size() - 1) {
            result.push_back(word.substr(0, word.size() - 1));
            result.emplace_back();
        } else {
            result.push_back(word);
        }
    }
    return result;
}

bool asks_for_json(const Arguments& arguments) {
    const auto end = std::ranges::find(arguments, "--");
    return std::find(arguments.begin(), end, "--json") != end;
}

std::optional<Error> check_utf8(const Arguments& arguments) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        if (is_utf8(arguments[i])) {
            continue;
        }
        std::string name = "argument " + std::to_string(i + 1);
        if (arguments[i].starts_with("--")) {
            name = arguments[i].substr(0, arguments[i].find('='));
        } else if (i > 0 && arguments[i - 1].starts_with("--")) {
            name = arguments[i - 1];
        }
        return invalid_argument(name, "it is not UTF-8").error();
    }
    return std::nullopt;
}

}  // namespace settle::cli
