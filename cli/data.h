// Finding the shipped data (examples, models, topologies, profiles, cases), whatever the working
// directory: beside the binary of a build tree (<binary's folder>/share/plumbline) or in the install
// prefix (<binary's folder>/../share/plumbline). The environment variable PLUMBLINE_DATA names another folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"

namespace plumbline::cli {

// The absolute path of this executable; empty when the system does not tell.
std::filesystem::path executable();

// The program `name` beside the running one; nullopt when it was not built.
std::optional<std::string> find_program(const std::string& name);

// The folder that holds examples/, topologies/, profiles/ and cases/.
model::Result<std::string> data_folder();

// Kinds of shipped data, each a folder of files of one extension.
enum class Shipped { plan, model, topology, profile, validation_case, published, gpu_cases, host_cases };

// The path of an existing file, or of a shipped one by its name with or without extension. A file that another one
// names (`named_in`) is looked for beside that one first. A miss is an input error that lists the shipped names and the
// nearest of them.
model::Result<std::string> resolve(Shipped kind, const std::string& path_or_name, const std::string& named_in = "");

// The given file of kernel classes, or the shipped one when `path` is empty.
model::Result<std::string> kernel_classes_file(const std::string& path);

// Paths of all shipped validation cases, ordered by name.
model::Result<std::vector<std::string>> shipped_case_files();

// `config` as a plan gives it: searched beside the plan's file, then in the shipped data, then as the
// name of a shipped model. Without a plan (empty `plan_file`) it is searched in the working directory.
model::Result<std::string> resolve_model(const std::string& plan_file, const std::string& config);

// The folder of device files for a topology: devices/ beside it when there is one, else the shipped one.
model::Result<std::string> resolve_device_folder(const std::string& topology_path);

}  // namespace plumbline::cli
