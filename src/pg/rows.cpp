#include <fmt/format.h>
#include <libpq-fe.h>

#include <charconv>
#include <stdexcept>

#include "pg/connection.hpp"

namespace settle::pg {
namespace {

// By exact name: PQfnumber would fold upper case and read quotes.
int column_of(const pg_result* result, std::string_view name) {
    for (int column = 0; column < PQnfields(result); ++column) {
        if (name == PQfname(result, column)) {
            return column;
        }
    }
    throw std::logic_error{fmt::format("the answer has no column \"{}\"", name)};
}

}  // namespace

void Rows::Free::operator()(pg_result* result) const noexcept {
    PQclear(result);
}

Rows::Rows(pg_result* result) : result_(result) {}

int Rows::count() const noexcept {
    return PQntuples(result_.get());
}

std::optional<std::string> Rows::text(int row, std::string_view column) const {
    if (row < 0 || row >= count()) {
        throw std::logic_error{fmt::format("the answer has no row {}", row)};
    }
    const int position = column_of(result_.get(), column);
    if (PQgetisnull(result_.get(), row, position) != 0) {
        return std::nullopt;
    }
    const auto length = static_cast<std::size_t>(PQgetlength(result_.get(), row, position));
    return std::string{PQgetvalue(result_.get(), row, position), length};
}

std::string Rows::require(int row, std::string_view column) const {
    auto value = text(row, column);
    if (!value) {
        throw std::logic_error{fmt::format("the column \"{}\" is null", column)};
    }
    return *std::move(value);
}

std::optional<std::int64_t> Rows::integer(int row, std::string_view column) const {
    const auto value = text(row, column);
    if (!value) {
        return std::nullopt;
    }
    std::int64_t number = 0;
    const auto [end, problem] = std::from_chars(value->data(), value->data() + value->size(), number);
    if (problem != std::errc{} || end != value->data() + value->size()) {
        throw std::logic_error{fmt::format("the column \"{}\" is no whole number", column)};
    }
    return number;
}

bool Rows::boolean(int row, std::string_view column) const {
    return text(row, column) == "t";
}

std::string Rows::command_tag() const {
    return PQcmdStatus(result_.get());
}

int Rows::affected() const {
    const std::string_view text = PQcmdTuples(result_.get());
    int number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
}

}  // namespace settle::pg
