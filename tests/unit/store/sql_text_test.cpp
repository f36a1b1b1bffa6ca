#include "store/sql_text.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

namespace settle::store::sql {
namespace {

std::string content_of(const std::filesystem::path& path) {
    std::ifstream file{path, std::ios::binary};
    return {std::istreambuf_iterator<char>{file}, {}};
}

std::vector<std::filesystem::path> files_in(const std::string& folder) {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator{SETTLE_SOURCE_DIRECTORY "/sql/" + folder}) {
        if (entry.path().extension() == ".sql") {
            found.push_back(entry.path());
        }
    }
    std::ranges::sort(found);
    return found;
}

void expect_same(std::span<const SqlFile> embedded, const std::string& folder) {
    const auto on_disk = files_in(folder);
    ASSERT_EQ(embedded.size(), on_disk.size()) << folder;
    for (std::size_t i = 0; i < on_disk.size(); ++i) {
        EXPECT_EQ(embedded[i].name, on_disk[i].filename().string());
        EXPECT_EQ(embedded[i].text, content_of(on_disk[i])) << on_disk[i];
    }
}

TEST(SqlText, IsTheTextOfTheFilesInTheOrderOfTheirNames) {
    EXPECT_FALSE(schema_files.empty());
    EXPECT_FALSE(api_files.empty());
    expect_same(schema_files, "schema");
    expect_same(api_files, "api");
}

TEST(SqlText, KeepsWhatIsLongerThanOneLiteral) {
    const auto longest = std::ranges::max_element(api_files, {}, [](const SqlFile& file) { return file.text.size(); });
    EXPECT_GT(longest->text.size(), 8000U);  // cmake/embed_sql.cmake cuts there
    EXPECT_EQ(longest->text, content_of(SETTLE_SOURCE_DIRECTORY "/sql/api/" + std::string{longest->name}));
}

TEST(SqlText, HasAConstantForEachQuery) {
    EXPECT_EQ(begin_operation, content_of(SETTLE_SOURCE_DIRECTORY "/sql/query/begin_operation.sql"));
}

}  // namespace
}  // namespace settle::store::sql
