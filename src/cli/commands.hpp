// One function per command, each in its own file; main.cpp alone knows the argument parser.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cli/context.hpp"

namespace settle::cli {

struct DbOptions {
    std::string action;  // up | down | status | url
};
int db_command(const Context& context, const DbOptions& options);

struct MigrateOptions {
    bool print = false;
};
int migrate_command(const Context& context, const MigrateOptions& options);

int doctor_command(const Context& context);

struct ExecOptions {
    std::string key;
    std::string kind = "exec";
    std::string request = "{}";
    std::string lease = "30s";
    std::optional<std::string> max_time;
    bool repeatable = false;
    bool rerun = false;
    std::string trigger = "call";
    std::string operator_name;
    std::string reason;
    std::vector<std::string> command;
};
int exec_command(const Context& context, const ExecOptions& options);

struct ShowOptions {
    std::string key;
};
int show_command(const Context& context, const ShowOptions& options);
int trace_command(const Context& context, const ShowOptions& options);

struct ListOptions {
    std::optional<std::string> status;
    std::optional<std::string> kind;
    int limit = 100;
};
int list_command(const Context& context, const ListOptions& options);

struct LeaseOptions {
    std::string action;  // acquire | renew | release | show | hold
    std::string resource;
    std::string holder;
    std::string ttl = "30s";
    std::optional<std::string> token;
    std::vector<std::string> command;  // hold
};
int lease_command(const Context& context, const LeaseOptions& options);

struct OperatorOptions {
    std::string key;
    std::string operator_name;
    std::string reason;
    std::optional<std::string> request;  // --revise
};
int rerun_command(const Context& context, const OperatorOptions& options);

struct ReviewOptions {
    std::string action;  // list | show | decide
    std::string key;
    std::string decision;
    std::string operator_name;
    std::string reason;
    std::optional<std::string> result_ref;
    std::optional<std::string> request;
};
int review_command(const Context& context, const ReviewOptions& options);

struct LabOptions {
    std::string action;  // init | verify
    std::string schema = "public";
};
int lab_command(const Context& context, const LabOptions& options);

int demo_command(const Context& context);

}  // namespace settle::cli
