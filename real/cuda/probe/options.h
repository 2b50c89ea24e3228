// The command line of plumbline-probe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "real/cuda/probe/case.h"

namespace plumbline::real::cuda {

struct ProbeOptions {
  std::string out;
  std::optional<double> budget_seconds;
  std::string cases_file;  // empty: the built-in sweep
  std::string only;        // measure only this operation
  std::vector<std::string> given_folders;
  std::string device_peak;    // for floors and estimates; empty: that of the device
  std::optional<int> device;  // none: that of the rank
  int samples = 30;
  std::string rendezvous;  // where several ranks find each other
  bool dry_run = false, list_libraries = false, retry = false, strict = false, help = false;
};

struct ParsedOptions {
  ProbeOptions value;
  std::string error;  // empty on success
};
ParsedOptions parse_options(const std::vector<std::string>& arguments);
std::string usage();

// The cases that the options ask for, most valuable first. `error` names file and line.
// Of several ranks: the collectives between them.
ParsedCases chosen_cases(const ProbeOptions& options, int sms, int ranks = 1);

}  // namespace plumbline::real::cuda
