#include "domain/json_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.hpp"
#include "base/utf8.hpp"

namespace settle {
namespace {

constexpr std::int64_t numeric_decimals = 16383;           // PostgreSQL's numeric has no more
constexpr std::int64_t largest_zero_exponent = 9'999'999;  // 0e9999999 is zero; numeric ends not far beyond
constexpr std::size_t shown_pointer_bytes = 200;  // a place in an error line, not a second copy of the document

// A reader of its own rather than a parser's events: it must see each number as it is spelled, each escape, and the
// byte at which they stand, and nothing may be converted.
class Scan {
public:
    explicit Scan(std::string_view text) : text_(text) {}

    bool document() {
        skip_space();
        if (!value(0)) {
            return false;
        }
        skip_space();
        return at_ == text_.size() || refuse("text after the end of the document", at_);
    }

    [[nodiscard]] const std::string& why() const { return why_; }

private:
    struct Step {
        std::string_view name;  // of a member; lives in the set of names of its object
        std::size_t index = 0;  // in an array
        bool member = false;
    };

    bool refuse(std::string_view why, std::size_t byte) {
        why_ = fmt::format("{} at {} (byte {})", why, pointer(), byte);
        return false;
    }

    [[nodiscard]] std::string pointer() const {
        if (path_.empty()) {
            return "the top level";
        }
        std::string out;
        for (const Step& step : path_) {
            out += '/';
            if (!step.member) {
                out += std::to_string(step.index);
                continue;
            }
            for (const char character : step.name) {
                if (character == '~') {
                    out += "~0";
                } else if (character == '/') {
                    out += "~1";
                } else {
                    out += character;
                }
            }
        }
        if (out.size() > shown_pointer_bytes) {
            std::size_t cut = shown_pointer_bytes;
            while ((static_cast<unsigned char>(out[cut]) & 0xC0U) == 0x80U) {
                --cut;
            }
            out.resize(cut);
            out += "…";
        }
        return out;
    }

    [[nodiscard]] bool is_next(char character) const { return at_ < text_.size() && text_[at_] == character; }
    [[nodiscard]] bool digit_next() const { return at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; }
    bool take(char character) {
        if (!is_next(character)) {
            return false;
        }
        ++at_;
        return true;
    }
    void skip_space() {
        const std::size_t next = text_.find_first_not_of(" \t\n\r", at_);
        at_ = next == std::string_view::npos ? text_.size() : next;
    }

    bool not_json(std::string_view expected) {
        if (at_ >= text_.size()) {
            return refuse(fmt::format("the text ends where {} is expected", expected), at_);
        }
        return refuse(fmt::format("this is no JSON: {} is expected", expected), at_);
    }

    bool value(int depth) {
        if (at_ >= text_.size()) {
            return not_json("a value");
        }
        switch (text_[at_]) {
            case '{':
                return object(depth + 1);
            case '[':
                return array(depth + 1);
            case '"':
                return string(nullptr, "a string");
            case 't':
                return word("true");
            case 'f':
                return word("false");
            case 'n':
                return word("null");
            default:
                return number();
        }
    }

    bool word(std::string_view expected) {
        if (text_.substr(at_, expected.size()) != expected) {
            return not_json("a value");
        }
        at_ += expected.size();
        return true;
    }

    bool check_depth(int depth) {
        return depth <= limits::json_depth || refuse(fmt::format("nesting deeper than {}", limits::json_depth), at_);
    }

    bool object(int depth) {
        if (!check_depth(depth)) {
            return false;
        }
        ++at_;
        skip_space();
        if (take('}')) {
            return true;
        }
        std::set<std::string> names;  // sorted, not hashed: chosen names cannot make it quadratic
        do {
            skip_space();
            if (!member(depth, names)) {
                return false;
            }
            skip_space();
        } while (take(','));
        return take('}') || not_json("',' or '}'");
    }

    bool member(int depth, std::set<std::string>& names) {
        const std::size_t start = at_;
        if (!is_next('"')) {
            return not_json("a member name");
        }
        std::string name;
        if (!string(&name, "a member name")) {
            return false;
        }
        const auto [position, fresh] = names.insert(std::move(name));
        path_.push_back({.name = *position, .index = 0, .member = true});
        if (!fresh) {
            return refuse("duplicate member name", start);
        }
        skip_space();
        if (!take(':')) {
            return not_json("':'");
        }
        skip_space();
        if (!value(depth)) {
            return false;
        }
        path_.pop_back();
        return true;
    }

    bool array(int depth) {
        if (!check_depth(depth)) {
            return false;
        }
        ++at_;
        skip_space();
        if (take(']')) {
            return true;
        }
        path_.push_back({});
        for (;;) {
            skip_space();
            if (!value(depth)) {
                return false;
            }
            skip_space();
            if (!take(',')) {
                break;
            }
            ++path_.back().index;
        }
        path_.pop_back();
        return take(']') || not_json("',' or ']'");
    }

    // `out`, where given, gets the decoded text; `what` is for the error.
    bool string(std::string* out, std::string_view what) {
        ++at_;
        while (at_ < text_.size()) {
            const auto byte = static_cast<unsigned char>(text_[at_]);
            if (byte == '"') {
                ++at_;
                return true;
            }
            if (byte == '\\') {
                if (!escape(out, what)) {
                    return false;
                }
                continue;
            }
            if (byte < 0x20) {
                return refuse(fmt::format("a bare control character in {}", what), at_);
            }
            const Utf8Character character = utf8_character(text_, at_);
            if (character.bytes == 0) {
                return refuse(fmt::format("invalid UTF-8 in {}", what), at_);
            }
            if (out != nullptr) {
                out->append(text_.substr(at_, character.bytes));
            }
            at_ += character.bytes;
        }
        return not_json("'\"'");
    }

    bool escape(std::string* out, std::string_view what) {
        constexpr std::string_view letters = "\"\\/bfnrt";
        constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
        const std::size_t start = at_;
        const char letter = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
        char32_t value = 0;
        if (letter == 'u') {
            if (!unicode_escape(value)) {
                return refuse(why_, start);
            }
            if (value == 0) {
                return refuse(fmt::format("U+0000 in {}", what), start);
            }
            if (value >= 0xD800 && value <= 0xDFFF) {
                return refuse(fmt::format("a lone surrogate in {}", what), start);
            }
        } else {
            const std::size_t which = letters.find(letter);
            if (letter == '\0' || which == std::string_view::npos) {
                return refuse(fmt::format("an unknown escape in {}", what), start);
            }
            value = static_cast<unsigned char>(meanings[which]);
            at_ += 2;
        }
        if (out != nullptr) {
            append_utf8(*out, value);
        }
        return true;
    }

    // Reads \uXXXX, and the second half of a pair with it; a half without its other half comes back as it is.
    bool unicode_escape(char32_t& value) {
        if (!hex4(at_ + 2, value)) {
            why_ = "\\u without four hexadecimal digits";
            return false;
        }
        at_ += 6;
        char32_t low = 0;
        if (value >= 0xD800 && value <= 0xDBFF && text_.substr(at_, 2) == "\\u" && hex4(at_ + 2, low) &&
            low >= 0xDC00 && low <= 0xDFFF) {
            value = 0x10000 + ((value - 0xD800) << 10U) + (low - 0xDC00);
            at_ += 6;
        }
        return true;
    }

    [[nodiscard]] bool hex4(std::size_t from, char32_t& value) const {
        const std::string_view digits = from <= text_.size() ? text_.substr(from, 4) : std::string_view{};
        if (digits.size() != 4) {
            return false;
        }
        value = 0;
        for (const char digit : digits) {
            value <<= 4U;
            if (digit >= '0' && digit <= '9') {
                value |= static_cast<char32_t>(digit - '0');
            } else if (digit >= 'a' && digit <= 'f') {
                value |= static_cast<char32_t>(digit - 'a' + 10);
            } else if (digit >= 'A' && digit <= 'F') {
                value |= static_cast<char32_t>(digit - 'A' + 10);
            } else {
                return false;
            }
        }
        return true;
    }

    std::string_view digits() {
        const std::size_t start = at_;
        while (digit_next()) {
            ++at_;
        }
        return text_.substr(start, at_ - start);
    }

    bool number() {
        const std::size_t start = at_;
        take('-');
        if (!digit_next()) {
            return not_json("a value");
        }
        const std::string_view whole = is_next('0') ? text_.substr(at_++, 1) : digits();
        std::string_view fraction;
        if (take('.')) {
            fraction = digits();
            if (fraction.empty()) {
                return not_json("a digit");
            }
        }
        std::int64_t exponent = 0;
        if (take('e') || take('E')) {
            const bool negative = take('-');
            if (!negative) {
                take('+');
            }
            if (!digit_next()) {
                return not_json("a digit");
            }
            // Far beyond every limit is far enough; a longer exponent must not overflow.
            constexpr std::int64_t beyond = 1'000'000'000;
            for (const char digit : digits()) {
                exponent = std::min(beyond, exponent * 10 + (digit - '0'));
            }
            exponent = negative ? -exponent : exponent;
        }
        return number_within_limits(whole, fraction, exponent, start);
    }

    // Zeros at either end are not counted, as the same number can be written without them; but what has more decimals
    // than numeric can hold, they count or not, would be refused by the database in words of its own.
    bool number_within_limits(std::string_view whole, std::string_view fraction, std::int64_t exponent,
                              std::size_t start) {
        std::string digits{whole};
        digits += fraction;
        const auto length = static_cast<std::int64_t>(digits.size());
        const std::int64_t point = static_cast<std::int64_t>(whole.size()) + exponent;  // digits before the point
        const std::size_t first = digits.find_first_not_of('0');
        const bool is_zero = first == std::string::npos;
        const auto leading_zeros = static_cast<std::int64_t>(is_zero ? 0 : first);
        const std::int64_t significant = is_zero ? length : static_cast<std::int64_t>(digits.find_last_not_of('0')) + 1;
        if (is_zero ? exponent > largest_zero_exponent : point - leading_zeros - 1 > limits::number_exponent) {
            return refuse(fmt::format("a number of 1e{} or beyond", limits::number_exponent + 1), start);
        }
        const std::int64_t before = is_zero ? 1 : std::max<std::int64_t>(1, point - leading_zeros);
        const std::int64_t after = std::max<std::int64_t>(0, significant - point);
        if (before + after > limits::number_digits || length - point > numeric_decimals) {
            return refuse(fmt::format("a number of more than {} digits written out", limits::number_digits), start);
        }
        return true;
    }

    std::string_view text_;
    std::size_t at_ = 0;
    std::vector<Step> path_;
    std::string why_;
};

}  // namespace

Result<void> check_json_text(std::string_view field, std::string_view text) {
    if (text.size() > limits::request_bytes) {
        return invalid_argument(
            field, fmt::format("{} bytes are more than the limit of {} (1 MiB)", text.size(), limits::request_bytes));
    }
    Scan scan{text};
    if (!scan.document()) {
        return invalid_argument(field, scan.why());
    }
    return {};
}

}  // namespace settle
