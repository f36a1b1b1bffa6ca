#include "cli/lab_figures.hpp"

#include <algorithm>

#include "cli/context.hpp"

namespace settle::cli {
namespace {

std::string text_of(const FigureValue& value) {
    if (const auto* truth = std::get_if<bool>(&value)) {
        return *truth ? "true" : "false";
    }
    if (const auto* number = std::get_if<std::int64_t>(&value)) {
        return std::to_string(*number);
    }
    if (const auto* text = std::get_if<std::string>(&value)) {
        return *text;
    }
    return "nothing";
}

std::string json_of(const FigureValue& value) {
    if (std::holds_alternative<std::monostate>(value)) {
        return "null";
    }
    return std::holds_alternative<std::string>(value) ? json_string(std::get<std::string>(value)) : text_of(value);
}

}  // namespace

FigureValue figure(const std::optional<std::int64_t>& number) {
    return number ? FigureValue{*number} : FigureValue{};
}

FigureValue figure(const std::optional<std::string>& text) {
    return text ? FigureValue{*text} : FigureValue{};
}

void Figures::shown(std::string_view name, FigureValue expected, FigureValue found) {
    line_ += (line_.empty() ? "" : " ") + std::string{name} + "=" + text_of(found);
    asserted(name, std::move(expected), std::move(found));
}

void Figures::shown_bare(std::string_view name, FigureValue expected, FigureValue found) {
    line_ += (line_.empty() ? "" : " ") + text_of(found);
    asserted(name, std::move(expected), std::move(found));
}

void Figures::asserted(std::string_view name, FigureValue expected, FigureValue found) {
    figures_.push_back({.name = std::string{name}, .expected = std::move(expected), .found = std::move(found)});
}

bool Figures::end_line() {
    if (!as_document_ && !line_.empty()) {
        print(line_);
    }
    line_.clear();
    return std::ranges::all_of(figures_, [](const Figure& one) { return one.expected == one.found; });
}

std::string Figures::differences() const {
    std::string words;
    for (const Figure& one : figures_) {
        if (one.expected != one.found) {
            words += (words.empty() ? "" : "; ") + one.name + ": expected " + text_of(one.expected) + ", found " +
                     text_of(one.found);
        }
    }
    return words;
}

std::string Figures::members() const {
    std::string text;
    for (const Figure& one : figures_) {
        text += (text.empty() ? "" : ",") + json_string(one.name) + ":" + json_of(one.found);
    }
    return text;
}

}  // namespace settle::cli
