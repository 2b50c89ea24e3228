// Finding the shipped data (examples, models, topologies, profiles, cases), whatever the working
// directory: beside the binary of a build tree (<binary's folder>/share/plumbline) or in the install
// prefix (<binary's folder>/../share/plumbline). The environment variable PLUMBLINE_DATA names another folder.
#pragma once

#include <string>
#include <vector>

#include "model/base/error.h"

namespace plumbline::cli {

// The folder that holds examples/, topologies/, profiles/ and cases/.
model::Result<std::string> data_folder();

// Each takes the path of an existing file, or the name of a shipped one with or without its extension,
// and returns a path. A miss is an input error that lists the shipped names and the nearest of them.
model::Result<std::string> resolve_plan(const std::string& path_or_name);
model::Result<std::string> resolve_topology(const std::string& path_or_name);
model::Result<std::string> resolve_profile(const std::string& path_or_name);
model::Result<std::string> resolve_case(const std::string& path_or_name);
model::Result<std::string> resolve_gpu_cases(const std::string& path_or_name);
model::Result<std::string> resolve_host_cases(const std::string& path_or_name);
model::Result<std::string> resolve_published(const std::string& path_or_name);

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
