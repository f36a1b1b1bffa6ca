#include "handler/kept_output.hpp"

#include <gtest/gtest.h>

#include "base/text.hpp"

namespace settle::handler {
namespace {

KeptOutput kept_of(std::string_view text, std::size_t limit, std::size_t chunk) {
    KeptOutput kept{limit};
    for (std::size_t at = 0; at < text.size(); at += chunk) {
        kept.append(text.substr(at, chunk));
    }
    return kept;
}

TEST(KeptOutput, KeepsAllUpToTheLimit) {
    const std::string text(100, 'x');
    EXPECT_EQ(kept_of(text, 100, 7).text(), text);
    EXPECT_EQ(kept_of("", 100, 7).text(), "");
    const std::string bytes{"\0\xff\n", 3};
    EXPECT_EQ(kept_of(bytes, 100, 1).text(), bytes);
}

TEST(KeptOutput, BeyondItTheEndWithAMark) {
    const std::string text(101, 'x');
    // The mark takes 37 of the 100 bytes.
    EXPECT_EQ(kept_of(text, 100, 1).text(), "[settle: 38 earlier bytes not kept]\n" + std::string(63, 'x'));
}

TEST(KeptOutput, IsTheSameHoweverTheBytesCame) {
    std::string text;
    for (int i = 0; i < 5000; ++i) {
        text += std::to_string(i) + "\n";
    }
    const std::string whole = kept_of(text, 1000, text.size()).text();
    EXPECT_LE(whole.size(), 1000U);
    EXPECT_TRUE(whole.ends_with("4998\n4999\n"));
    for (const std::size_t chunk : {1U, 3U, 999U, 1000U, 1001U, 2500U}) {
        EXPECT_EQ(kept_of(text, 1000, chunk).text(), whole) << chunk;
    }
}

TEST(KeptOutput, CutsBetweenCharacters) {
    for (const std::string_view character : {"ä", "€", "𝄞"}) {
        for (std::size_t shift = 0; shift < character.size(); ++shift) {
            std::string text(shift, 'x');
            while (text.size() < 500) {
                text += character;
            }
            const std::string kept = kept_of(text, 100, 9).text();
            EXPECT_TRUE(is_utf8(kept)) << character << shift;
            EXPECT_LE(kept.size(), 100U);
            const std::size_t line_end = kept.find('\n');
            EXPECT_EQ(std::stoull(kept.substr(9)) + kept.size() - line_end - 1, text.size());
        }
    }
}

TEST(KeptOutput, LeavesWhatIsNoTextAlone) {
    const std::string bytes(300, '\x80');
    const std::string kept = kept_of(bytes, 100, 100).text();
    EXPECT_TRUE(kept.ends_with(std::string(60, '\x80')));
}

}  // namespace
}  // namespace settle::handler
