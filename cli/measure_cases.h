// `plumbline measure --backend cuda` without a plan: kernels, copies, launches and collectives by themselves.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/world.h"
#include "model/base/error.h"

namespace plumbline::cli {

struct CaseMeasureArguments {
  std::string cases;            // a file or the name of a shipped one; empty: the built-in sweep
  std::string out;              // .jsonl or .csv
  std::string device = "h200";  // whose datasheet rates floor times use where there is no GPU
  std::string only;             // measure only this operation
  std::vector<std::string> library_folders;
  std::optional<double> budget_s;
  int samples = 30;
  bool dry_run = false, retry = false, strict = false;
};

// What is there already is not measured again. The exit code: 77 where there is no GPU, 1 with `strict` where a case
// failed.
model::Result<int> measure_cases(const CaseMeasureArguments& arguments, const World& world);

}  // namespace plumbline::cli
