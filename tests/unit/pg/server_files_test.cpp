#include "pg/server_files.hpp"

#include <gtest/gtest.h>

namespace settle::pg {
namespace {

TEST(ReasonIn, TakesTheLastFatalLineWithItsDetail) {
    EXPECT_EQ(reason_in("2026-01-01 UTC [1] LOG:  starting\n"
                        "2026-01-01 UTC [1] FATAL:  data directory is locked\n"
                        "2026-01-01 UTC [1] HINT:  Is another postmaster running?\n"
                        "2026-01-01 UTC [1] LOG:  database system is shut down\n"),
              "data directory is locked (Is another postmaster running?)");
    EXPECT_EQ(reason_in("FATAL:  first\nDETAIL:  one\nPANIC:  second\nLOG:  HINT:  no\n"), "second (no)");
}

TEST(ReasonIn, DoesNotTakeWhatClientsAreToldForAReason) {
    EXPECT_EQ(reason_in("FATAL:  no space\nFATAL:  the database system is starting up\nDETAIL:  x\n"), "no space");
}

TEST(ReasonIn, ReadsInitdb) {
    EXPECT_EQ(reason_in("running bootstrap script ... initdb: error: could not write\nchild process exited\n"),
              "could not write");
}

TEST(ReasonIn, TakesTheLastLineWhereNobodySaysFatal) {
    EXPECT_EQ(reason_in("postgres: error while loading shared libraries\n\n"),
              "postgres: error while loading shared libraries");
    EXPECT_EQ(reason_in(""), "");
}

TEST(SocketDirectory, IsTheClusterWhereItsPathFits) {
    EXPECT_EQ(socket_directory({.path = "/home/ann/.local/state/settle"}), "/home/ann/.local/state/settle/data");
    const std::string fits(107 - sizeof "/data/.s.PGSQL.5432", 'x');
    EXPECT_EQ(socket_directory({.path = "/" + fits}), "/" + fits + "/data");
    EXPECT_TRUE(socket_directory({.path = "/" + fits + "x"}).starts_with("/tmp/settle-"));
}

TEST(SocketDirectory, IsShortAndItsOwnOtherwise) {
    const std::string first = socket_directory({.path = "/" + std::string(200, 'a')});
    EXPECT_LT(first.size(), 40U);
    EXPECT_NE(first, socket_directory({.path = "/" + std::string(200, 'b')}));
    EXPECT_NE(socket_directory({.path = "/a,b"}), "/a,b/data") << "libpq takes the comma for the next host";
}

}  // namespace
}  // namespace settle::pg
