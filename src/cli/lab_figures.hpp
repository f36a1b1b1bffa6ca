// What `lab verify` compares: each figure as expected and as found, printed line by line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace settle::cli {

// Nothing: there was no such row.
using FigureValue = std::variant<std::monostate, bool, std::int64_t, std::string>;

FigureValue figure(const std::optional<std::int64_t>& number);
FigureValue figure(const std::optional<std::string>& text);

class Figures {
public:
    explicit Figures(bool as_document) : as_document_(as_document) {}

    // Part of the line to come, as `name=found`; or the bare value, whose name only a document and a difference give.
    void shown(std::string_view name, FigureValue expected, FigureValue found);
    void shown_bare(std::string_view name, FigureValue expected, FigureValue found);
    // Compared, not printed.
    void asserted(std::string_view name, FigureValue expected, FigureValue found);

    // Prints the line of what was found (a document prints nothing yet); false where any figure so far differs.
    bool end_line();

    // The figures that differ, in words; empty where none does.
    [[nodiscard]] std::string differences() const;
    // All figures as members of a JSON object, in their order, without the braces.
    [[nodiscard]] std::string members() const;

private:
    struct Figure {
        std::string name;
        FigureValue expected;
        FigureValue found;
    };
    bool as_document_;
    std::string line_;
    std::vector<Figure> figures_;
};

}  // namespace settle::cli
