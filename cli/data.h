// Finds the shipped data (examples, models, topologies, profiles, cases) from any working directory: in the build tree
// next to the binary (<binary's folder>/share/plumbline), or in the install prefix (<binary's
// folder>/../share/plumbline). A shared library, such as a Python module, looks in share/plumbline of its own folder
// and of each one above. The environment variable PLUMBLINE_DATA names another folder.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"

namespace plumbline::cli {

// Returns the absolute path of this executable; empty when the system has no record of it.
std::filesystem::path executable();

// Returns the program `name` in the folder of the running one; nullopt when it was not built.
std::optional<std::string> find_program(const std::string& name);

// Returns the folder that holds examples/, topologies/, profiles/ and cases/.
model::Result<std::string> data_folder();

// Returns the git revision that this program was built from, with "-dirty" where files were changed; "unknown" when it
// was built from sources without git.
std::string source_revision();

// The kinds of shipped data, each a folder of files with one extension.
enum class Shipped {
  plan,
  model,
  topology,
  profile,
  stack,
  validation_case,
  published,
  gpu_cases,
  host_cases,
  reliability
};

// Returns the path of an existing file, or of a shipped one by its name with or without extension. When another file
// (`named_in`) names it, that file's folder is searched first. A miss is an input error with the nearest shipped name
// and the list of them, and so is a file of another program, with the command that reads it.
model::Result<std::string> resolve(Shipped kind, const std::string& path_or_name, const std::string& named_in = "");

// Returns the name of the only shipped file of these kinds whose name begins with the text, with it as a whole word
// where some do; else the text, which may be a file, a whole name, or neither. A text with which several names begin is
// an input error that lists them.
model::Result<std::string> whole_name(const std::string& text, std::initializer_list<Shipped> kinds);

// Returns the names of the shipped files of a kind.
model::Result<std::vector<std::string>> shipped_names(Shipped kind);

// Returns the given file of kernel classes, or the shipped one when `path` is empty.
model::Result<std::string> kernel_classes_file(const std::string& path);

// Returns the paths of all shipped validation cases, ordered by name.
model::Result<std::vector<std::string>> shipped_case_files();

// Returns the path of a plan's `config`: searched in the folder of the plan's file, then in the shipped data, then as
// the name of a shipped model or the beginning of one (whole_name()). Without a plan (empty `plan_file`) the first
// folder is the working directory.
model::Result<std::string> resolve_model(const std::string& plan_file, const std::string& config);

// Returns the folder of device files for a topology: devices/ in its folder when there is one, else the shipped one.
model::Result<std::string> resolve_device_folder(const std::string& topology_path);

}  // namespace plumbline::cli
