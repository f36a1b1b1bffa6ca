#include "base/text.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <system_error>

#include "base/limits.hpp"
#include "base/utf8.hpp"

namespace settle {
namespace {

struct Unit {
    std::string_view name;
    std::int64_t ms;
};

// Largest first: format_duration takes the first that divides.
constexpr std::array units{
    Unit{"d", 86'400'000}, Unit{"h", 3'600'000}, Unit{"m", 60'000}, Unit{"s", 1'000}, Unit{"ms", 1},
};

// Control characters, line separators, and what changes the direction or visibility of its neighbours.
bool needs_escape(char32_t value) noexcept {
    const auto within = [value](char32_t first, char32_t last) { return value >= first && value <= last; };
    return value < 0x20 || within(0x7F, 0x9F) || value == 0xAD || value == 0x61C || value == 0x180E ||
           within(0x200B, 0x200B) || within(0x200E, 0x200F) || within(0x2028, 0x202E) || within(0x2060, 0x206F) ||
           value == 0xFEFF || within(0xFFF9, 0xFFFB) || within(0xE0000, 0xE007F);
}

void append_escape(std::string& out, char32_t value) {
    switch (value) {
        case '\n':
            out += "\\n";
            return;
        case '\r':
            out += "\\r";
            return;
        case '\t':
            out += "\\t";
            return;
        default:
            break;
    }
    const auto code = static_cast<std::uint32_t>(value);
    if (code < 0x10000) {
        fmt::format_to(std::back_inserter(out), "\\u{:04x}", code);
    } else {
        fmt::format_to(std::back_inserter(out), "\\U{:08x}", code);
    }
}

constexpr std::string_view base64_alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::optional<std::uint32_t> base64_value(char character) noexcept {
    const std::size_t at = base64_alphabet.find(character);
    if (at == std::string_view::npos) {
        return std::nullopt;
    }
    return static_cast<std::uint32_t>(at);
}

}  // namespace

Result<std::chrono::milliseconds> parse_duration(std::string_view field, std::string_view text) {
    const auto malformed = [&] {
        return invalid_argument(field, fmt::format("\"{}\" is no duration; write a whole number and a unit "
                                                   "(ms, s, m, h, d), as in \"30s\"",
                                                   text));
    };
    const auto outside = [&] {
        return invalid_argument(
            field, fmt::format("\"{}\" is outside the limits: {} to {}", text, format_duration(limits::duration_min),
                               format_duration(limits::duration_max)));
    };
    std::size_t digits = text.find_first_not_of("0123456789");
    if (digits == 0 || digits == std::string_view::npos) {
        return malformed();
    }
    const std::string_view unit_name = text.substr(digits);
    for (const Unit& unit : units) {
        if (unit.name != unit_name) {
            continue;
        }
        constexpr std::int64_t most = std::chrono::milliseconds{limits::duration_max}.count();
        std::int64_t amount = 0;
        for (const char digit : text.substr(0, digits)) {
            amount = amount * 10 + (digit - '0');
            if (amount > most / unit.ms) {
                return outside();
            }
        }
        const std::chrono::milliseconds time{amount * unit.ms};
        if (time < limits::duration_min) {
            return outside();
        }
        return time;
    }
    return malformed();
}

std::string format_duration(std::chrono::milliseconds time) {
    const std::int64_t ms = time.count();
    if (ms == 0) {
        return "0ms";
    }
    for (const Unit& unit : units) {
        if (ms % unit.ms == 0) {
            return fmt::format("{}{}", ms / unit.ms, unit.name);
        }
    }
    return fmt::format("{}ms", ms);
}

std::string printable(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const Utf8Character character = utf8_character(text, at);
        if (character.bytes == 0) {
            fmt::format_to(std::back_inserter(out), "\\x{:02x}",
                           static_cast<unsigned>(static_cast<unsigned char>(text[at])));
            ++at;
            continue;
        }
        if (needs_escape(character.value)) {
            append_escape(out, character.value);
        } else {
            out += text.substr(at, character.bytes);
        }
        at += character.bytes;
    }
    return out;
}

std::string base64_encode(std::string_view bytes) {
    std::string out;
    out.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t at = 0; at < bytes.size(); at += 3) {
        const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
        std::uint32_t group = 0;
        for (std::size_t i = 0; i < 3; ++i) {
            group = (group << 8U) | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0U);
        }
        for (std::size_t i = 0; i < 4; ++i) {
            out += i <= count ? base64_alphabet[(group >> (18U - 6U * i)) & 0x3FU] : '=';
        }
    }
    return out;
}

Result<std::string> base64_decode(std::string_view text) {
    const auto malformed = [] { return fail(Code::invalid_argument, "this is no base64 (RFC 4648, with padding)"); };
    if (text.size() % 4 != 0) {
        return malformed();
    }
    std::string out;
    out.reserve(text.size() / 4 * 3);
    for (std::size_t at = 0; at < text.size(); at += 4) {
        const std::string_view group_text = text.substr(at, 4);
        std::size_t used = std::min<std::size_t>(group_text.find('='), 4);
        const bool last = at + 4 == text.size();
        if (used < 2 || (used < 4 && !last) || group_text.find_first_not_of('=', used) != std::string_view::npos) {
            return malformed();
        }
        std::uint32_t group = 0;
        for (std::size_t i = 0; i < 4; ++i) {
            const auto value = i < used ? base64_value(group_text[i]) : std::optional<std::uint32_t>{0};
            if (!value) {
                return malformed();
            }
            group = (group << 6U) | *value;
        }
        // Bits beyond the last byte must be zero, or two texts would mean the same bytes.
        if ((used == 2 && (group & 0xFFFFU) != 0) || (used == 3 && (group & 0xFFU) != 0)) {
            return malformed();
        }
        for (std::size_t i = 0; i + 1 < used; ++i) {
            out += static_cast<char>((group >> (16U - 8U * i)) & 0xFFU);
        }
    }
    return out;
}

std::string random_id() {
    std::array<unsigned char, 16> bytes{};
    // Up to 256 bytes come whole or not at all; only the wait for the kernel's first seed can be interrupted.
    while (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
        if (errno != EINTR) {
            throw std::system_error{errno, std::generic_category(), "getrandom"};
        }
    }
    std::string out;
    for (const unsigned char byte : bytes) {
        fmt::format_to(std::back_inserter(out), "{:02x}", static_cast<unsigned>(byte));
    }
    return out;
}

}  // namespace settle
