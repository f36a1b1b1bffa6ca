// Where the private server's files lie, whose they are, and what its log says.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "pg/file_descriptor.hpp"

namespace settle::pg {

// SETTLE_HOME. The server's own directory lies in it: `data` is the cluster and holds the socket, too.
struct ServerHome {
    std::string path;  // absolute

    [[nodiscard]] std::string data() const { return path + "/data"; }
    [[nodiscard]] std::string log_file() const { return path + "/server.log"; }
    [[nodiscard]] std::string lock_file() const { return path + "/lock"; }
};

// Who the server runs as. PostgreSQL refuses root, so root's server runs as somebody else.
struct ServerUser {
    uid_t uid = 0;
    gid_t gid = 0;
    bool other = false;  // not the caller: privileges are dropped before anything of PostgreSQL runs
};

// SETTLE_HOME, or .local/state/settle in the caller's home directory.
Result<ServerHome> find_home();
// Makes it, and the missing directories above it, with mode 0700.
Result<void> make_home(const ServerHome& home);
Result<ServerUser> server_user(const ServerHome& home);

// One process at a time creates, starts or stops. Held until the descriptor is closed; no child inherits it.
Result<FileDescriptor> lock_home(const ServerHome& home, Deadline deadline);

// Opened for appending; a log that has grown large is put aside first.
Result<FileDescriptor> open_log(const ServerHome& home);
// What an output of PostgreSQL gives as its reason to end: the last FATAL or PANIC, else its last line. Empty where it
// says nothing.
std::string reason_in(std::string_view output);
std::string read_from(const std::string& path, off_t offset);
off_t size_of(const std::string& path);

// True where nothing more can be written beside `path`.
bool is_disk_full(const std::string& path);
// " (what to do)" for a failure with this reason.
std::string advice(const ServerHome& home, std::string_view reason);

// The data directory, or a short one under /tmp where a socket's path would be too long for the kernel.
std::string socket_directory(const ServerHome& home);
// Makes the short one where it is used, and refuses one that somebody else has made.
Result<void> make_socket_directory(const ServerHome& home, const ServerUser& user);

}  // namespace settle::pg
