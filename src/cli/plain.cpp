#include "cli/plain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/text.hpp"
#include "base/utf8.hpp"

namespace settle::cli {
namespace {

// Columns on a terminal, near enough to align a table.
std::size_t width_of(std::string_view text) {
    std::size_t width = 0;
    for (std::size_t at = 0; at < text.size();) {
        const Utf8Character character = utf8_character(text, at);
        const char32_t value = character.value;
        const bool none = (value >= 0x300 && value <= 0x36F) || value == 0x200D;
        const bool wide = (value >= 0x1100 && value <= 0x115F) || (value >= 0x2E80 && value <= 0xA4CF) ||
                          (value >= 0xAC00 && value <= 0xD7A3) || (value >= 0xF900 && value <= 0xFAFF) ||
                          (value >= 0xFF00 && value <= 0xFF60) || (value >= 0x1F300 && value <= 0x1FAFF) ||
                          (value >= 0x20000 && value <= 0x3FFFD);
        width += none ? 0 : (wide ? 2 : 1);
        at += std::max<std::size_t>(character.bytes, 1);
    }
    return width;
}

}  // namespace

std::string shell_word(std::string_view text) {
    constexpr std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:@%+=,~";
    if (printable(text) != text) {
        std::string escaped;
        for (const char character : text) {
            if (character == '\\' || character == '\'') {
                escaped += '\\';
            }
            escaped += character;
        }
        return "$'" + printable(escaped) + "'";
    }
    if (!text.empty() && text.front() != '~' && text.find_first_not_of(plain) == std::string_view::npos) {
        return std::string{text};
    }
    std::string quoted = "'";
    for (const char character : text) {
        quoted += character == '\'' ? std::string{"'\\''"} : std::string{character};
    }
    return quoted + "'";
}

std::string command_line(const Context& context, std::string_view command, std::string_view key,
                         std::string_view options) {
    std::string line = "settle";
    if (context.name_space != "default") {
        line += " --namespace " + shell_word(context.name_space);
    }
    line += fmt::format(" {}", command);
    const std::string word = shell_word(key);
    const std::string rest = options.empty() ? std::string{} : fmt::format(" {}", options);
    // A key that begins with a hyphen would be taken for an option.
    return key.starts_with('-') ? fmt::format("{}{} -- {}", line, rest, word)
                                : fmt::format("{} {}{}", line, word, rest);
}

std::string about(std::int64_t seconds) {
    constexpr std::array units{std::pair{std::int64_t{86'400}, 'd'}, std::pair{std::int64_t{3'600}, 'h'},
                               std::pair{std::int64_t{60}, 'm'}, std::pair{std::int64_t{1}, 's'}};
    const std::int64_t distance = seconds < 0 ? -seconds : seconds;
    std::int64_t left = distance;
    std::string text;
    int parts = 0;
    for (const auto& [length, name] : units) {
        const std::int64_t count = left / length;
        if (parts == 2 || (count == 0 && (parts > 0 || length > 1))) {
            if (parts > 0) {
                break;  // "2h" rather than "2h 0m 3s"
            }
            continue;
        }
        text += fmt::format("{}{}{}", parts == 0 ? "" : " ", count, name);
        left %= length;
        ++parts;
    }
    return seconds < 0 ? text + " ago" : "in " + text;
}

std::string excerpt(std::string_view text, std::size_t max_bytes) {
    if (text.size() <= max_bytes) {
        return printable(text);
    }
    std::size_t end = 0;
    while (end < max_bytes) {
        end += std::max<std::size_t>(utf8_character(text, end).bytes, 1);
    }
    return fmt::format("{}… ({} bytes in all)", printable(text.substr(0, end)), text.size());
}

std::string table(const std::vector<std::vector<std::string>>& rows, std::size_t indent) {
    std::vector<std::size_t> widths;
    for (const auto& row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t i = 0; i < row.size(); ++i) {
            widths[i] = std::max(widths[i], width_of(row[i]));
        }
    }
    std::string text;
    for (const auto& row : rows) {
        std::string line(indent, ' ');
        for (std::size_t i = 0; i < row.size(); ++i) {
            line += row[i];
            line.append(widths[i] - width_of(row[i]) + 2, ' ');
        }
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

std::string in_words(std::string_view status) {
    return status == "review" ? "in review" : std::string{status};
}

std::string json_array(const std::vector<std::string>& documents) {
    return fmt::format("[{}]", fmt::join(documents, ",\n "));
}

std::string safe_json(std::string_view document) {
    std::string safe;
    safe.reserve(document.size());
    for (std::size_t at = 0; at < document.size();) {
        const Utf8Character character = utf8_character(document, at);
        const std::string_view bytes = document.substr(at, std::max<std::size_t>(character.bytes, 1));
        at += bytes.size();
        // Below that stand the quotes, the escapes and the white space of JSON itself.
        if (character.value < 0x7F || printable(bytes) == bytes) {
            safe += bytes;
        } else if (character.value < 0x10000) {
            fmt::format_to(std::back_inserter(safe), "\\u{:04x}", static_cast<std::uint32_t>(character.value));
        } else {
            const auto rest = static_cast<std::uint32_t>(character.value) - 0x10000U;
            fmt::format_to(std::back_inserter(safe), "\\u{:04x}\\u{:04x}", 0xD800U + (rest >> 10U),
                           0xDC00U + (rest & 0x3FFU));
        }
    }
    return safe;
}

}  // namespace settle::cli
