#include "handler/command_result.hpp"

#include <fmt/format.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "base/text.hpp"

namespace settle::handler {
namespace {

namespace json = boost::json;

std::optional<std::string> text_member(const json::object& object, std::string_view name) {
    const json::value* member = object.if_contains(name);
    if (member == nullptr || !member->is_string()) {
        return std::nullopt;
    }
    const json::string& text = member->get_string();
    return std::string{text.data(), text.size()};
}

std::optional<std::string> decoded(const std::optional<std::string>& text, bool base64) {
    if (!text || !base64) {
        return text;
    }
    auto bytes = base64_decode(*text);
    return bytes ? std::optional{std::move(*bytes)} : std::nullopt;
}

std::optional<CommandResult> command_result_of(const json::value& document) {
    const json::object* object = document.if_object();
    if (object == nullptr) {
        return std::nullopt;
    }
    const json::value* status = object->if_contains("exit_status");
    const auto encoding = text_member(*object, "encoding");
    if (status == nullptr || !status->is_int64() || status->get_int64() < 0 || status->get_int64() > 255 ||
        (encoding != "utf8" && encoding != "base64")) {
        return std::nullopt;
    }
    auto out = decoded(text_member(*object, "stdout"), encoding == "base64");
    auto err = decoded(text_member(*object, "stderr"), encoding == "base64");
    if (!out || !err) {
        return std::nullopt;
    }
    return CommandResult{static_cast<int>(status->get_int64()), std::move(*out), std::move(*err)};
}

}  // namespace

std::string to_json(const CommandResult& result) {
    const bool as_text = is_utf8(result.out) && is_utf8(result.err);
    const auto text = [&](const std::string& bytes) {
        return json::serialize(json::string_view{as_text ? bytes : base64_encode(bytes)});
    };
    return fmt::format(R"({{"stderr": {}, "stdout": {}, "encoding": "{}", "exit_status": {}}})", text(result.err),
                       text(result.out), as_text ? "utf8" : "base64", result.exit_status);
}

std::optional<CommandResult> command_result_of(std::string_view text) {
    boost::system::error_code error;
    const json::value document = json::parse(text, error);
    return error ? std::nullopt : command_result_of(document);
}

std::optional<CommandResult> command_result_of_failure(std::string_view text) {
    boost::system::error_code error;
    const json::value document = json::parse(text, error);
    if (error || !document.is_object()) {
        return std::nullopt;
    }
    const json::value* detail = document.get_object().if_contains("detail");
    return detail == nullptr ? std::nullopt : command_result_of(*detail);
}

}  // namespace settle::handler
