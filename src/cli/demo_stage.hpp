// How the demonstration is shown: every command line as it would be typed, its real output, its exit status.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "cli/demo_process.hpp"

namespace settle::cli {

class DemoStage {
public:
    // `document`: nothing is shown as it happens; `document_of_all` has it.
    DemoStage(std::string name_space, DemoPlace place, bool document);

    [[nodiscard]] const std::string& name_space() const noexcept { return name_space_; }
    // What stands in a file that the commands write.
    [[nodiscard]] std::string text_of(const std::string& file) const;
    // Whole lines.
    void say(std::string_view text);
    void chapter(std::string_view title, std::string_view sentence);

    // settle with these words and the story's namespace, to its end. It must end with this status.
    Result<DemoEnd> settle(const std::vector<std::string>& words, int expected_status);
    // The same in the background.
    Result<DemoProcess> start(const std::vector<std::string>& words);
    // Waits for one that was started, which must end with this status.
    Result<DemoEnd> finish(DemoProcess& process, std::string_view words, int expected_status);
    // kill -9, -STOP or -CONT, by the name that is typed.
    void signal(const DemoProcess& process, std::string_view name);
    // A file that the commands wrote, shown by `cat`.
    Result<std::string> cat(const std::string& file);
    // SQL as it would be typed, and what it answered.
    void sql(std::string_view statement, std::string_view answer);

    [[nodiscard]] std::string document_of_all() const;

private:
    struct Shown {
        std::string command;
        DemoEnd end;
    };
    [[nodiscard]] std::vector<std::string> with_namespace(const std::vector<std::string>& words) const;
    void show(std::string command, const DemoEnd& end, bool with_status);

    std::string name_space_;
    DemoPlace place_;
    bool document_;
    std::vector<Shown> all_;
};

// Removes a directory of the demonstration, whatever lies in it.
class DemoDirectory {
public:
    static Result<DemoDirectory> make();
    DemoDirectory(DemoDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
    DemoDirectory& operator=(DemoDirectory&& other) = delete;
    DemoDirectory(const DemoDirectory&) = delete;
    DemoDirectory& operator=(const DemoDirectory&) = delete;
    ~DemoDirectory();
    [[nodiscard]] const std::string& path() const noexcept { return path_; }

private:
    explicit DemoDirectory(std::string path) : path_(std::move(path)) {}
    std::string path_;
};

// The story did not happen as it is told.
std::unexpected<Error> not_as_told(std::string_view what);

}  // namespace settle::cli
