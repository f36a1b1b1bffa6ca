#include "cli/demo_stage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "cli/context.hpp"
#include "cli/plain.hpp"

namespace settle::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto command_wait = 30s;  // none of the story's commands takes more than a few

std::string line_of(const std::vector<std::string>& words) {
    std::string line;
    for (const std::string& word : words) {
        line += (line.empty() ? "" : " ") + shell_word(word);
    }
    return line;
}

std::string indented(std::string_view text) {
    std::string lines;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        lines += fmt::format("    {}\n", text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

}  // namespace

std::unexpected<Error> not_as_told(std::string_view what) {
    return fail(Code::internal, fmt::format("the story did not happen as it is told: {}", what));
}

Result<DemoDirectory> DemoDirectory::make() {
    const char* chosen = std::getenv("TMPDIR");
    std::string path = fmt::format("{}/settle-demo.XXXXXX", chosen != nullptr && *chosen == '/' ? chosen : "/tmp");
    if (mkdtemp(path.data()) == nullptr) {
        return fail(Code::internal,
                    fmt::format("cannot make {}: {}; TMPDIR names another place", path, std::strerror(errno)));
    }
    return DemoDirectory{path};
}

DemoDirectory::~DemoDirectory() {
    if (!path_.empty()) {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
}

DemoStage::DemoStage(std::string name_space, DemoPlace place, bool document)
    : name_space_(std::move(name_space)), place_(std::move(place)), document_(document) {}

std::string DemoStage::text_of(const std::string& file) const {
    return read_text(fmt::format("{}/{}", place_.directory, file));
}

void DemoStage::say(std::string_view text) {
    if (!document_) {
        print(text);
    }
}

void DemoStage::chapter(std::string_view title, std::string_view sentence) {
    say(fmt::format("\n{}\n{}\n\n", title, sentence));
}

std::vector<std::string> DemoStage::with_namespace(const std::vector<std::string>& words) const {
    std::vector<std::string> all{"settle", "--namespace", name_space_};
    all.insert(all.end(), words.begin(), words.end());
    return all;
}

void DemoStage::show(std::string command, const DemoEnd& end, bool with_status) {
    const std::string status = with_status ? fmt::format("    [exit status {}]\n", end.status) : "";
    say(indented(end.out) + indented(end.err) + status);
    all_.push_back({.command = std::move(command), .end = end});
}

Result<DemoEnd> DemoStage::settle(const std::vector<std::string>& words, int expected_status) {
    const auto all = with_namespace(words);
    const std::string line = line_of(all);
    say("  $ " + line);
    auto process = DemoProcess::start(place_, all);
    if (!process) {
        return std::unexpected{process.error()};
    }
    return finish(*process, line, expected_status);
}

Result<DemoEnd> DemoStage::finish(DemoProcess& process, std::string_view words, int expected_status) {
    auto end = process.wait(Deadline::in(command_wait));
    if (!end) {
        return end;
    }
    show(std::string{words}, *end, true);
    if (end->status != expected_status) {
        return not_as_told(
            fmt::format("`{}` should end with {}, and ended with {}", words, expected_status, end->status));
    }
    return end;
}

Result<DemoProcess> DemoStage::start(const std::vector<std::string>& words) {
    const auto all = with_namespace(words);
    auto process = DemoProcess::start(place_, all);
    if (process) {
        say(fmt::format("  $ {} &\n    [{}]", line_of(all), process->pid()));
        all_.push_back({.command = line_of(all) + " &", .end = {}});
    }
    return process;
}

void DemoStage::signal(const DemoProcess& process, std::string_view name) {
    const std::string line = fmt::format("kill -{} {}", name, process.pid());
    say("  $ " + line);
    process.signal(name == "9" ? SIGKILL : name == "STOP" ? SIGSTOP : SIGCONT);
    all_.push_back({.command = line, .end = {}});
}

Result<std::string> DemoStage::cat(const std::string& file) {
    say("  $ cat " + file);
    auto process = DemoProcess::start(place_, {"cat", file});
    if (!process) {
        return std::unexpected{process.error()};
    }
    const auto end = process->wait(Deadline::in(command_wait));
    if (!end) {
        return std::unexpected{end.error()};
    }
    show("cat " + file, *end, false);
    return end->out;
}

void DemoStage::sql(std::string_view statement, std::string_view answer) {
    std::string typed{statement};
    typed.erase(typed.find_last_not_of('\n') + 1);
    for (std::size_t at = typed.find('\n'); at != std::string::npos; at = typed.find('\n', at + 1)) {
        typed.replace(at, 1, " ");
    }
    say(fmt::format("  sql> {};\n{}", typed, indented(answer)));
    all_.push_back({.command = typed, .end = {.status = 0, .out = std::string{answer}, .err = {}}});
}

std::string DemoStage::document_of_all() const {
    std::string steps;
    for (const Shown& one : all_) {
        steps +=
            fmt::format(R"({}{{"command":{},"status":{},"stdout":{},"stderr":{}}})", steps.empty() ? "" : ",",
                        json_string(one.command), one.end.status, json_string(one.end.out), json_string(one.end.err));
    }
    return fmt::format(R"({{"namespace":{},"steps":[{}]}})", json_string(name_space_), steps);
}

}  // namespace settle::cli
